import { cp, rm } from 'node:fs/promises';
import type { ControlPlane } from './controlPlane.ts';

/** The processes of a control plane with their settings, which are not in their types. */
interface Processes {
  readonly etcd: Process & { readonly url: string; readonly opts: { readonly dataDir: string } };
  readonly apiServer: Process & { readonly opts: { etcdURL: string } };
}

interface Process {
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Copies etcd's data into a folder, as a backup does. The API server and etcd are started again. */
export async function backUpEtcd(plane: ControlPlane, folder: string): Promise<void> {
  await whileStopped(plane, ({ etcd }) => cp(etcd.opts.dataDir, folder, { recursive: true }));
}

/**
 * Replaces etcd's data by a backup (null: by nothing at all), as a restore does: the API server and etcd are stopped
 * meanwhile. The revision goes on from the backup's.
 */
export async function restoreEtcd(plane: ControlPlane, folder: string | null): Promise<void> {
  await whileStopped(plane, async ({ etcd }) => {
    await rm(etcd.opts.dataDir, { recursive: true });
    if (folder !== null) await cp(folder, etcd.opts.dataDir, { recursive: true });
  });
}

async function whileStopped(plane: ControlPlane, work: (processes: Processes) => Promise<void>): Promise<void> {
  const processes = plane.environment as unknown as Processes;
  const { etcd, apiServer } = processes;
  await apiServer.stop();
  await etcd.stop();
  await work(processes);
  await etcd.start();
  // A started etcd has another port.
  apiServer.opts.etcdURL = etcd.url;
  await apiServer.start();
}
