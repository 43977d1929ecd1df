/**
 * Libraries that the bundle of `scripts/buildServer.ts` leaves in node_modules: native code, and drivers that find their own
 * files, and each other, at run time. With what they depend on they are all that the image has of node_modules.
 */
export const serverExternals: readonly string[] = ['bcrypt', 'knex', 'mysql2', 'pg'];
