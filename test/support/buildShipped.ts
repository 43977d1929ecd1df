/** Vitest's global setup of the suites that run the gateway as it ships (`ENGINE_GATEWAY_PROGRAM=shipped`). */
export { buildShippedProgram as setup } from './shippedProgram.ts';
