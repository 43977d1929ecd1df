import { resolve } from 'node:path';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

/**
 * Placeholders that the gateway replaces when it serves the page (src/api/userInterface); Vite's server inserts the
 * defaults.
 */
const placeholders: Plugin = {
  name: 'placeholders',
  apply: 'serve',
  transformIndexHtml: (html) =>
    html
      .replaceAll('__BASE__', '/engine-gateway/')
      .replaceAll('__PRODUCT__', 'Engine')
      .replaceAll('__VERSION__', 'development')
      .replaceAll('__SHARED_ORIGIN__', 'false'),
};

/** The pages share types with the gateway, which leave nothing in the build; a value would import gateway code. */
const typesAlone: Plugin = {
  name: 'types-alone',
  load(id) {
    const isForeign = id.startsWith(resolve(import.meta.dirname, '..')) && !id.startsWith(import.meta.dirname);
    if (isForeign) this.error(`${id} is the gateway's: import types of it alone`);
  },
};

const gatewayPaths = '^/(webapp|gateway|engine/|api/|login|loginType|logout|userinfo|sso|oidc|metrics|openapi)';

export default defineConfig(({ command }) => ({
  root: import.meta.dirname,
  // The gateway's path depends on the product's name, so the built page refers to its files relatively.
  base: command === 'build' ? './' : '/engine-gateway/',
  plugins: [react(), placeholders, typesAlone],
  server: { proxy: { [gatewayPaths]: process.env.GATEWAY_URL ?? 'http://localhost:8080' } },
  build: {
    outDir: resolve(import.meta.dirname, '../../dist/ui'),
    emptyOutDir: true,
    manifest: true,
    target: 'es2023',
    // First versions that support light-dark().
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    // Images are files: the content security policy does not allow data: addresses for scripts and styles.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // test/ui/size.test.ts limits the compressed size.
    chunkSizeWarningLimit: 1024,
  },
}));
