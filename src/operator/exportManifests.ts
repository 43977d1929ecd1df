import { Document } from 'yaml';
import { resourceKinds } from '../kinds/registry.ts';
import type { Exportable } from '../kinds/resourceKind.ts';
import { API_GROUP_VERSION } from '../model/resource.ts';
import { resourceNames } from '../model/resourceName.ts';

export interface ExportInput extends Exportable {
  /** Written into each manifest; null leaves the choice to `kubectl --namespace`. */
  readonly namespace: string | null;
  /** `resources.class` of the gateway that they are for; null: it has none. */
  readonly gatewayClass?: string | null;
}

/** Manifests as YAML, and what of them has to be corrected before they are accepted: a sentence each. */
export interface ExportedManifests {
  readonly yaml: string;
  readonly problems: readonly string[];
}

/**
 * Prints what Trino Gateway has as manifests, ready for `kubectl apply` or for a directory. Names that are no
 * Kubernetes names get the metadata.name that a REST write would give them.
 */
export function exportManifests(
  { namespace, gatewayClass = null, ...input }: ExportInput,
  kinds = resourceKinds,
): ExportedManifests {
  const problems: string[] = [];
  const manifests = kinds.all.flatMap(({ kind, exported, specProblems, hasUniqueNames }) => {
    const names = new Set<string>();
    return [...exported(input)].map(({ registryName, spec: exportedSpec }) => {
      const name = resourceNames(registryName).find((each) => !names.has(each)) as string;
      names.add(name);
      const spec = {
        // A kind without such names is known by metadata.name alone.
        ...(name === registryName || !hasUniqueNames ? {} : { name: registryName }),
        ...(gatewayClass === null ? {} : { gatewayClassName: gatewayClass }),
        ...exportedSpec,
      };
      for (const { field, message } of specProblems(spec))
        problems.push(`${kind} ${name} (${JSON.stringify(registryName)}): ${field} ${message}`);
      return {
        apiVersion: API_GROUP_VERSION,
        kind,
        metadata: { name, ...(namespace === null ? {} : { namespace }) },
        spec,
      };
    });
  });
  const yaml = manifests.map((manifest) => `---\n${new Document(manifest).toString({ lineWidth: 0 })}`).join('');
  return { yaml, problems };
}
