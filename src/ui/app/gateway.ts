/** Values that the gateway wrote into its page: the product's name and the base path. */
export const product = document.querySelector<HTMLMetaElement>('meta[name=product]')?.content ?? 'Engine';

export const gatewayVersion = document.querySelector<HTMLMetaElement>('meta[name=version]')?.content ?? '';

/** True if pages of engines are served at the origin of these pages (docs/serving.md). */
export const hasSharedOrigin = document.querySelector<HTMLMetaElement>('meta[name=shared-origin]')?.content === 'true';

/** Path of the pages without a slash at its end, e.g. `/engine-gateway`. */
export const basePath = new URL(document.baseURI).pathname.replace(/\/$/, '');

/** Header that repeats the session's token in writes, and the cookies the token may be in (docs/authentication.md). */
export const csrf = {
  header: `X-${product}-Gateway-CSRF`,
  cookies: [`__Host-${product}-Gateway-CSRF`, `${product}-Gateway-CSRF`],
};

/** Header that lists pending effects of a write, e.g. `database`. */
export const pendingHeaderName = `X-${product}-Gateway-Pending`;
