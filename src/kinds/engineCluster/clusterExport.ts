import type { Exportable, ExportedResource } from '../exported.ts';

/** Rows of `gateway_backend` as EngineClusters. */
export function* exportedClusters({ clusters }: Exportable): Generator<ExportedResource> {
  for (const { name, backendUrl, externalUrl, active, routingGroup } of clusters) {
    const external = externalUrl === backendUrl || externalUrl === '' ? {} : { externalUrl };
    yield { registryName: name, spec: { proxyTo: backendUrl, ...external, active, routingGroup } };
  }
}
