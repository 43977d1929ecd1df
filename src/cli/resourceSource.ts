import type { Logger } from 'pino';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import type { Clock } from '../model/clock.ts';
import { DatabaseSource } from '../operator/database/databaseSource.ts';
import { standaloneRow } from '../operator/database/standaloneRow.ts';
import { DirectorySource } from '../operator/directory/directorySource.ts';
import type { ResourceSource } from '../operator/source.ts';
import type { Store } from '../store/store.ts';

/** Namespace of resources that name none, where there is no Kubernetes. */
const DEFAULT_NAMESPACE = 'default';

/** Makes the resource source that `resources.source` names. */
export function resourceSource(config: GatewayConfig, store: Store, logger: Logger, clock: Clock): ResourceSource {
  const { source, directory, namespace } = config.resources;
  const own = namespace ?? DEFAULT_NAMESPACE;
  switch (source) {
    case 'directory':
      // The configuration has been checked: source directory has a directory.
      return new DirectorySource({ directory: directory ?? '.', namespace: own, clock, logger });
    case 'database':
      return new DatabaseSource({ store, rowOf: standaloneRow, namespace: own, clock, logger });
    case 'kubernetes':
      throw new Error('the Kubernetes back end is not there yet');
  }
}
