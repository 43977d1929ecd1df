import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { findJava } from '../engine/distribution.ts';
import { installReference } from './referenceGateway.ts';
import type { RestCall } from './restCall.ts';

/** Classes with the REST API of the releases; the last one up to release 18. */
const resources = [
  'EntityEditorResource',
  'GatewayHealthCheckResource',
  'GatewayResource',
  'GatewayViewResource',
  'GatewayWebAppResource',
  'HaGatewayResource',
  'LoginResource',
  'PublicResource',
  'TrinoResource',
];

/** An endpoint as the annotations of a release have it. */
interface Endpoint {
  readonly method: string;
  /** With `{name}` for a segment. */
  readonly path: string;
}

/** The endpoints of a release, read from its classes by `javap`. */
async function endpointsOf(release: number): Promise<readonly Endpoint[]> {
  const java = await findJava();
  if (java === undefined) throw new Error('no JDK 24 or newer');
  const javap = java.includes('/') ? join(dirname(java), 'javap') : 'javap';
  const jar = await installReference(release);
  const names = resources.map((name) => `io.trino.gateway.ha.resource.${name}`);
  // It fails where a class is missing, after it has printed the others.
  const text = await promisify(execFile)(javap, ['-v', '-p', '-cp', jar, ...names], { maxBuffer: 50_000_000 }).then(
    ({ stdout }) => stdout,
    (error: { stdout?: string }) => error.stdout ?? '',
  );
  return text.split(/^Classfile /m).flatMap((classText) => {
    const base = /^ {4}jakarta\.ws\.rs\.Path\(\n {6}value="([^"]*)"/m.exec(classText)?.[1];
    if (base === undefined) return [];
    return classText.split(/\n {2}(?=\S)/).flatMap((member) => {
      const method = /^ {8}jakarta\.ws\.rs\.(GET|POST|PUT|DELETE)$/m.exec(member)?.[1];
      if (method === undefined) return [];
      const path = /^ {8}jakarta\.ws\.rs\.Path\(\n {10}value="([^"]*)"/m.exec(member)?.[1] ?? '';
      return [{ method, path: `/${base}/${path}`.replaceAll(/\/+/g, '/').replace(/(.)\/$/, '$1') }];
    });
  });
}

/**
 * Endpoints of a release that no call is for.
 * @throws Error where the classes could not be read
 */
export async function endpointsWithout(calls: readonly RestCall[], release: number): Promise<readonly string[]> {
  const endpoints = await endpointsOf(release);
  if (endpoints.length < 30)
    throw new Error(`release ${release} has but ${endpoints.length} endpoints: ${JSON.stringify(endpoints)}`);
  const isFor = ({ method, path }: Endpoint) => {
    const pattern = new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}/?(?:\\?.*)?$`);
    return calls.some((call) => call.method === method && pattern.test(call.path));
  };
  return endpoints.filter((endpoint) => !isFor(endpoint)).map(({ method, path }) => `${method} ${path}`);
}
