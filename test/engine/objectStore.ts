import { randomBytes } from 'node:crypto';
import { freePort } from '../support/freePort.ts';
import { ServerProcess } from '../support/serverProcess.ts';
import type { Distribution } from './distribution.ts';

/** An S3-compatible object store with one bucket, for the spooled protocol. */
export interface ObjectStore {
  /** Files of the `etc` folder of engines that spool into it, by name. */
  readonly files: Readonly<Record<string, string>>;
  /** Lines of their `config.properties`: one secret for all, segments from a thousand rows, served by the coordinators. */
  readonly settings: Readonly<Record<string, string>>;
  /** Address of its bucket. */
  readonly bucket: string;
  stop(): Promise<void>;
}

const BUCKET = 'spooling';
/** The store checks no signature; the engine's client needs some credentials all the same. */
const CREDENTIALS = 'suite';

/** Starts a store on a free port of 127.0.0.1; ready when it resolves. It keeps all in memory. */
export async function startObjectStore({ python }: Pick<Distribution, 'python'>): Promise<ObjectStore> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  // Not the program `moto_server`, which names the folder that it was installed into: that may have been moved.
  const server = new ServerProcess(python, ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)], null);
  await server.start(async () => {
    const { status } = await fetch(`${url}/${BUCKET}`, { method: 'PUT' });
    if (status !== 200) throw new Error(`the bucket is answered ${status}`);
  });
  const manager = {
    'spooling-manager.name': 'filesystem',
    'fs.s3.enabled': 'true',
    'fs.location': `s3://${BUCKET}/segments/`,
    // Keys of the client's own choice go over HTTPS alone.
    'fs.segment.encryption': 'false',
    's3.endpoint': url,
    's3.region': 'us-east-1',
    's3.path-style-access': 'true',
    's3.aws-access-key': CREDENTIALS,
    's3.aws-secret-key': CREDENTIALS,
  };
  return {
    files: {
      'spooling-manager.properties': Object.entries(manager)
        .map(([key, value]) => `${key}=${value}\n`)
        .join(''),
    },
    settings: {
      'protocol.spooling.enabled': 'true',
      'protocol.spooling.shared-secret-key': randomBytes(32).toString('base64'),
      'protocol.spooling.retrieval-mode': 'coordinator_proxy',
      'protocol.spooling.inlining.max-rows': '1000',
    },
    bucket: `${url}/${BUCKET}`,
    stop: () => server.stop('SIGKILL'),
  };
}

/** Keys of the objects in a bucket. */
export async function keysIn(bucket: string): Promise<readonly string[]> {
  const listing = await (await fetch(`${bucket}?list-type=2`)).text();
  return [...listing.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key ?? '');
}
