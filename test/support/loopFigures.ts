import { once } from 'node:events';
import { get } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import type { LoopFigures } from './loopProbe.ts';

/** Environment of a gateway that measures its own event loop (loopProbe.ts). @param folder for its socket */
export function withLoopProbe(folder: string): Readonly<Record<string, string>> {
  const probe = pathToFileURL(join(import.meta.dirname, 'loopProbe.ts')).href;
  return { LOOP_PROBES: folder, NODE_OPTIONS: `--import=${probe}` };
}

/** What the probe of a process measured since it was last asked. */
export async function loopFigures(folder: string, pid: number): Promise<LoopFigures> {
  const request = get({ socketPath: join(folder, `${pid}.sock`), path: '/', agent: false });
  const [response] = (await once(request, 'response', { signal: AbortSignal.timeout(60_000) })) as [
    NodeJS.ReadableStream,
  ];
  return JSON.parse(await text(response)) as LoopFigures;
}
