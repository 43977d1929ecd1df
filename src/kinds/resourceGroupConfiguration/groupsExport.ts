import type { Exportable, ExportedResource } from '../exported.ts';

/** Resource groups of an environment and database as a resource. */
export function* groupsExport({ resourceGroups = [] }: Exportable): Generator<ExportedResource> {
  for (const { environment, database, file } of resourceGroups) {
    const spec = { environment, ...(database === null ? {} : { databases: [database] }), ...file };
    // Those of one environment in several databases are resources of their own.
    yield { registryName: database === null ? environment : `${environment}-${database}`, spec };
  }
}
