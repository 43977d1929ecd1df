/**
 * Loaded into a gateway that runs from its sources (`node --import`): records the calls of functions of `src` between
 * `/start` and `/stop` on the socket `calls.sock` in the folder CALL_PROBE. The program itself knows nothing of it.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { registerHooks } from 'node:module';
import { join, relative, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { parseSync, Visitor } from 'rolldown/utils';

/** A record starts when no function ran for this time. */
const QUIET_MS = 50;
/** Longest wait for that, as periodic work never ends. */
const MAX_WAIT_MS = 2000;

const folder = process.env.CALL_PROBE;
if (folder !== undefined && isMainThread) {
  const sources = `${pathToFileURL(resolve('src')).href}/`;
  /** Path and position of each function; its index is its number. */
  const functions: string[] = [];
  let calls: number[] | undefined;
  Object.assign(globalThis, { recordCall: (number: number) => calls?.push(number) });

  /** Returns a source with a call of `recordCall` at the start of each function. */
  const withCalls = (path: string): string => {
    const source = readFileSync(path, 'utf8');
    const inserts: { readonly at: number; readonly text: string }[] = [];
    const add = (start: number, body: { type: string; start: number; end: number } | null) => {
      if (body === null) return;
      const call = `globalThis.recordCall(${functions.push(`${relative('.', path)}:${start}`) - 1})`;
      if (body.type === 'BlockStatement') inserts.push({ at: body.start + 1, text: `${call};` });
      else inserts.push({ at: body.start, text: `(${call},(` }, { at: body.end, text: '))' });
    };
    new Visitor({
      FunctionDeclaration: ({ start, body }) => add(start, body),
      FunctionExpression: ({ start, body }) => add(start, body),
      ArrowFunctionExpression: ({ start, body }) => add(start, body),
    }).visit(parseSync(path, source).program);
    let text = '';
    let position = 0;
    for (const insert of inserts.sort((a, b) => a.at - b.at)) {
      text += source.slice(position, insert.at) + insert.text;
      position = insert.at;
    }
    return text + source.slice(position);
  };
  registerHooks({
    load: (url, context, next) =>
      url.startsWith(sources) && url.endsWith('.ts')
        ? { format: 'module-typescript', source: withCalls(fileURLToPath(url)), shortCircuit: true }
        : next(url, context),
  });

  /** Waits until no function runs, or periodic work takes too long to wait for. */
  const waitForQuiet = async () => {
    const deadline = performance.now() + MAX_WAIT_MS;
    for (let count = -1; count !== calls?.length && performance.now() < deadline; await pause(QUIET_MS)) {
      count = calls?.length ?? 0;
    }
  };
  const server = createServer(async (request, response) => {
    const recorded = calls ?? [];
    calls = undefined;
    if (request.url === '/start') {
      calls = [];
      await waitForQuiet();
      calls = [];
    }
    response.end(JSON.stringify(recorded.map((number) => functions[number])));
  });
  server.listen(join(folder, 'calls.sock'));
  server.unref();
}
