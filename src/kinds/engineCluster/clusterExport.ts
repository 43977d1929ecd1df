import type { Exportable, ExportedResource } from '../exported.ts';

/** Rows of `gateway_backend` as EngineClusters. */
export function* exportedClusters({ clusters }: Exportable): Generator<ExportedResource> {
  for (const { name, proxyTo, externalUrl, active, routingGroup } of clusters) {
    const external = externalUrl === proxyTo || externalUrl === '' ? {} : { externalUrl };
    yield { registryName: name, spec: { proxyTo, ...external, active, routingGroup } };
  }
}
