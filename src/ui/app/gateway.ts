/** What the gateway wrote into its page: the product's name and the path that the pages lie under. */
export const product = document.querySelector<HTMLMetaElement>('meta[name=product]')?.content ?? 'Engine';

/** Version of the gateway. */
export const version = document.querySelector<HTMLMetaElement>('meta[name=version]')?.content ?? '';

/** Whether pages of engines are served at the origin of these pages (docs/serving.md). */
export const sharesOrigin = document.querySelector<HTMLMetaElement>('meta[name=shared-origin]')?.content === 'true';

/** Path of the pages without a slash at its end, e.g. `/engine-gateway`. */
export const basePath = new URL(document.baseURI).pathname.replace(/\/$/, '');

/** Header that repeats the session's token in writes, and the cookies the token may be in (docs/authentication.md). */
export const csrf = {
  header: `X-${product}-Gateway-CSRF`,
  cookies: [`__Host-${product}-Gateway-CSRF`, `${product}-Gateway-CSRF`],
};

/** Header of answers that say what follows later, e.g. `database`. */
export const pendingHeader = `X-${product}-Gateway-Pending`;
