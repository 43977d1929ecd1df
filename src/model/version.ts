import manifest from '../../package.json' with { type: 'json' };

/** Version of the program in package.json. */
export const { version } = manifest;

/** `User-Agent` of the gateway's own requests: health checks, calls of the API server. */
export const userAgent = `engine-gateway/${version}`;
