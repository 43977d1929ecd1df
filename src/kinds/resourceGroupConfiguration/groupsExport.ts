import type { Exportable, ExportedResource } from '../exported.ts';

/** Resource groups of an environment as a resource. */
export function* groupsExport({ resourceGroups = [] }: Exportable): Generator<ExportedResource> {
  for (const { environment, file } of resourceGroups) {
    yield { registryName: environment, spec: { environment, ...file } };
  }
}
