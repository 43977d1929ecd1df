import { apiVersionOf } from '../../src/model/resource.ts';

/** Returns a resource as it is declared. @param metadata what it has in addition to its name */
export const manifest = <Spec extends object>(kind: string, name: string, spec: Spec, metadata: object = {}) => ({
  apiVersion: apiVersionOf(kind),
  kind,
  metadata: { name, ...metadata },
  spec,
});
