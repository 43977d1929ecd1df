import { Document } from 'yaml';
import type { Exportable } from '../kinds/exported.ts';
import { resourceKinds } from '../kinds/registry.ts';
import { API_GROUP_VERSION } from '../model/resource.ts';
import { resourceNames } from '../model/resourceName.ts';

/** What is exported. */
export interface ExportInput extends Exportable {
  /** Written into each manifest; null leaves the choice to `kubectl --namespace`. */
  readonly namespace: string | null;
}

/**
 * Prints what a gateway that ran before has as manifests, ready for `kubectl apply` or for a directory. Names that are no
 * Kubernetes names get the metadata.name that a REST write would give them.
 */
export function exportManifests({ namespace, ...input }: ExportInput, kinds = resourceKinds): string {
  const manifests = kinds.all.flatMap(({ kind, exported }) => {
    const names = new Set<string>();
    return [...exported(input)].map(({ registryName, spec }) => {
      const name = freeName(registryName, names);
      return {
        apiVersion: API_GROUP_VERSION,
        kind,
        metadata: { name, ...(namespace === null ? {} : { namespace }) },
        spec: { ...(name === registryName ? {} : { name: registryName }), ...spec },
      };
    });
  });
  return manifests.map((manifest) => `---\n${new Document(manifest).toString({ lineWidth: 0 })}`).join('');
}

function freeName(registryName: string, names: Set<string>): string {
  for (const name of resourceNames(registryName)) {
    if (names.has(name)) continue;
    names.add(name);
    return name;
  }
  throw new Error('names never end');
}
