/** Returns a resource as it is declared. @param metadata what it has in addition to its name */
export const manifest = <Spec extends object>(kind: string, name: string, spec: Spec, metadata: object = {}) => ({
  apiVersion: 'enginegateway.dev/v1beta1',
  kind,
  metadata: { name, ...metadata },
  spec,
});
