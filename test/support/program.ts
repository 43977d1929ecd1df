import { join } from 'node:path';
import { previousVersion } from './previousProgram.ts';
import { shippedProgram } from './shippedProgram.ts';

/** Which program runs: that of the sources, the one that ships, built from them, or that of the previous version. */
export type GatewayProgram = 'sources' | 'shipped' | 'previous';

/** What the suite asks for (vitest.config.ts). */
const programOfSuite: GatewayProgram = process.env.ENGINE_GATEWAY_PROGRAM === 'shipped' ? 'shipped' : 'sources';

/** The arguments of Node that start a program, before those of `engine-gateway`; by default the one of the suite. */
export async function programArguments(program: GatewayProgram = programOfSuite): Promise<readonly string[]> {
  if (program === 'shipped') return await shippedProgram();
  return [join(program === 'previous' ? await previousVersion() : '', 'src/main.ts')];
}
