/** The servers that the files of a suite share. */
export type SharedServer = 'mariadb' | 'postgresql' | 'controlPlane' | 'chartPlane' | 'trinoPair';

/** A server of the run; `share` makes what one file gets of it. */
export interface StartedServer {
  share(): Promise<object>;
  stop(): Promise<void>;
}

/** Variable of the environment with the address at which `sharedServers.ts` answers. */
export const SHARED_SERVERS = 'TEST_SHARED_SERVERS';

/** Whether the files of this suite share servers (vitest.config.ts). */
export const hasSharedServers = (): boolean => process.env[SHARED_SERVERS] !== undefined;

/**
 * What this file gets of a server of the run, which is started at the first call: a new database's JDBC settings, or
 * the control plane's configuration.
 * @throws with the server's output when it does not start
 */
export async function shareOf<T extends object>(server: SharedServer): Promise<T> {
  const response = await fetch(`${process.env[SHARED_SERVERS]}/${server}`);
  if (!response.ok) throw new Error(`the ${server} of the suite: ${await response.text()}`);
  return (await response.json()) as T;
}
