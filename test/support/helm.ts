import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { requireComponent } from './components.ts';

const run = promisify(execFile);

const helmPath = [...(process.env.PATH ?? '').split(delimiter), join(homedir(), 'go', 'bin'), '.cache/bin']
  .map((folder) => join(folder, 'helm'))
  .find((path) => existsSync(path));

/** Whether helm is installed. */
export const helmAvailable = requireComponent(
  'helm',
  helmPath !== undefined,
  'put helm on the PATH (go install helm.sh/helm/v3/cmd/helm@latest)',
);

/**
 * Runs helm.
 * @returns its standard output
 * @throws with `stderr` when it fails
 */
export async function helm(...args: readonly string[]): Promise<string> {
  return (await run(helmPath ?? '', args, { maxBuffer: 1 << 24 })).stdout;
}

/** Makes the chart of the CRDs as a release packages it. @returns its folder, which is removed after the test */
export async function crdChart(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'crd-chart-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await cp('manifests/helm/engine-gateway-crds', folder, { recursive: true });
  await cp('crds', join(folder, 'files'), { recursive: true });
  return folder;
}

/** An object of rendered manifests. */
export interface Rendered {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
  readonly rules?: readonly object[];
  readonly spec?: Readonly<Record<string, unknown>>;
}

/** Objects of rendered manifests. */
export function renderedObjects(rendered: string): readonly Rendered[] {
  return parseAllDocuments(rendered)
    .map((document) => document.toJS() as Rendered | null)
    .filter((object): object is Rendered => object?.kind !== undefined);
}

/** Text of the gateway's configuration file in rendered manifests: of a ConfigMap (kustomize) or a Secret (the chart). */
export function renderedConfig(rendered: string): string {
  const files = renderedObjects(rendered).map(({ data, stringData }) => (data ?? stringData)?.['gateway.yaml']);
  const [text] = files.filter((file) => file !== undefined);
  if (text === undefined) throw new Error('no gateway.yaml is rendered');
  return text;
}
