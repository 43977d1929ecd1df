import { randomUUID } from 'node:crypto';
import type { LockedPackages } from '../lockedPackages.ts';

interface Component {
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly scope?: string;
}

/** A CycloneDX document as npm writes it (https://docs.npmjs.com/cli/commands/npm-sbom). */
export interface Sbom {
  readonly serialNumber: string;
  readonly metadata: { readonly component: Component & { readonly name: string } };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

/**
 * The bill of materials of what ships: of all packages of package-lock.json, those in the image's node_modules and those whose
 * code is in a bundle. npm by itself would leave out what is bundled but a development dependency, as the libraries of the
 * pages are, and list dependencies that are never shipped.
 * @param sbom of the whole package-lock.json
 * @param shipped paths of packages in package-lock.json
 */
export function shippedSbom(sbom: Sbom, locked: LockedPackages, shipped: Iterable<string>): Sbom {
  const wanted = new Set<string>();
  for (const path of shipped) {
    const version = locked[path]?.version;
    if (version === undefined) throw new Error(`${path} is not in package-lock.json`);
    wanted.add(`${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${version}`);
  }
  const components = sbom.components
    .filter(({ name, version }) => wanted.delete(`${name}@${version}`))
    .map((component) => ({ ...component, scope: 'required' }));
  if (wanted.size > 0) throw new Error(`npm sbom does not list ${[...wanted].join(', ')}`);
  const { component } = sbom.metadata;
  const refs = new Set([component['bom-ref'], ...components.map((each) => each['bom-ref'])]);
  return {
    ...sbom,
    serialNumber: `urn:uuid:${randomUUID()}`,
    // npm names the project by its folder.
    metadata: { ...sbom.metadata, component: { ...component, name: 'engine-gateway' } },
    components,
    dependencies: sbom.dependencies
      .filter(({ ref }) => refs.has(ref))
      .map(({ ref, dependsOn }) => ({
        ref,
        // What is bundled has no other package between itself and the program.
        dependsOn:
          ref === component['bom-ref']
            ? components.map((each) => each['bom-ref'])
            : dependsOn.filter((each) => refs.has(each)),
      })),
  };
}
