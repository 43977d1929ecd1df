/** The gateway that is moved from, as it is released: from Maven Central, kept under `.cache/`. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { cache, fetchArtifact, findJava, makeWorkFolder, moveIntoPlace, works } from '../engine/distribution.ts';

/** The release that the suite runs. */
export const RELEASE = 21;
/** The newest release with calls on resource groups. */
export const RELEASE_WITH_RESOURCE_GROUPS = 18;

/** Tools that are missing for the suite; empty when it can run. */
export async function missingReferenceTools(): Promise<readonly string[]> {
  const found = await Promise.all([findJava().then((java) => java !== undefined), works('mvn', ['--version'])]);
  return ['a JDK 24 or newer', 'Maven (mvn)'].filter((_, index) => !found[index]);
}

/** Path of the program of a release; fetched where it is missing. */
export async function installReference(release: number): Promise<string> {
  const name = `gateway-ha-${release}-jar-with-dependencies.jar`;
  const file = join(cache, name);
  if (existsSync(file)) return file;
  await mkdir(cache, { recursive: true });
  const work = await makeWorkFolder(`gateway-ha-${release}`);
  await fetchArtifact(`io.trino.gateway:gateway-ha:${release}:jar:jar-with-dependencies`, work);
  await moveIntoPlace(join(work, name), file);
  await rm(work, { recursive: true });
  return file;
}

/** A reference gateway that runs. */
export interface ReferenceGateway {
  readonly url: string;
  /** Ends it; later calls do nothing. */
  stop(): Promise<void>;
}

/** It takes some 15 s on a machine that does nothing else. */
const START_MILLIS = 180_000;

/**
 * Starts a release with a configuration file that names the port.
 * @throws with its output where it ends instead of answering
 */
export async function startReference(release: number, config: string, port: number): Promise<ReferenceGateway> {
  const java = await findJava();
  if (java === undefined) throw new Error('no JDK 24 or newer');
  const jar = await installReference(release);
  const options = ['-Xmx512M', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];
  const child = spawn(java, [...options, '-jar', jar, config], { stdio: ['ignore', 'pipe', 'pipe'] });
  const endWithRun = () => child.kill('SIGKILL');
  process.once('exit', endWithRun);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-20_000);
    });
  }
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const stop = async () => {
    if (!hasEnded()) child.kill('SIGKILL');
    await ended;
    process.off('exit', endWithRun);
  };
  const url = `http://127.0.0.1:${port}`;
  const deadline = performance.now() + START_MILLIS;
  for (;;) {
    const isUp = await fetch(`${url}/trino-gateway/livez`, { signal: AbortSignal.timeout(5000) }).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isUp) return { url, stop };
    if (hasEnded() || performance.now() > deadline) {
      await stop();
      throw new Error(`the reference gateway does not start: ${output}`);
    }
    await pause(250);
  }
}
