import type { Registry } from 'prom-client';
import type { Platform, ProgramSettings } from '../kinds/resourceKind.ts';
import type { AuditWriter } from '../store/auditWriter.ts';
import type { SchemaStores } from '../store/resourceGroupStore.ts';
import type { SourceName, Store } from '../store/store.ts';
import type { EventRecorder } from './events/eventRecorder.ts';
import type { Leadership } from './leadership/leadership.ts';
import type { ControllerOptions } from './reconcile/controller.ts';
import type { ApiWrites } from './registry/resourceWrites.ts';
import type { SecretCredentials } from './sources/kubernetes/healthCredentials.ts';
import type { KubernetesServices } from './sources/kubernetes/kubernetesServices.ts';
import type { KubernetesSource } from './sources/kubernetes/kubernetesSource.ts';
import type { ResourceSource } from './sources/source.ts';
import type { WebhookParts } from './webhook/webhookCertificate.ts';

/** `resources` of the configuration. */
export interface ResourceSettings {
  readonly source: SourceName;
  readonly directory: string | null;
  readonly namespace: string | null;
  /** In place of `namespace`, unless empty. */
  readonly namespaces: readonly string[];
  /** Class of the gateway; null: resources that name none are its own. */
  readonly class: string | null;
  /** As `parseLabelSelector` reads it; null: any labels. */
  readonly labelSelector: string | null;
  /** Lease of this gateway; null: that of its class. */
  readonly leaseName: string | null;
  readonly kubeconfig: string | null;
  readonly writeNamespace: string | null;
  readonly unmanagedRows: 'serve' | 'ignore';
}

/** The platform of a gateway. @param own the gateway's namespace */
export function platformOf(
  { namespace, namespaces }: Pick<ResourceSettings, 'namespace' | 'namespaces'>,
  own: string,
): Platform {
  return { namespace: own, areSeveral: namespaces.length === 0 ? namespace === '*' : new Set(namespaces).size > 1 };
}

/** Options of `createOperator`; call `controller.scheduleRefresh()` when an input of outcomes has changed. */
export interface OperatorOptions
  extends Omit<ProgramSettings, 'services' | 'discoveries' | 'platform'>,
    Pick<ControllerOptions, 'kinds' | 'table' | 'deletionGuard' | 'admissionCounts' | 'clock' | 'random' | 'logger'> {
  readonly resources: ResourceSettings;
  readonly apiWrites: ApiWrites;
  /** `resources.discovery.namespaces`; left out, a discovery looks only at its own namespace. */
  readonly discoveryNamespaces?: readonly string[];
  readonly store: Pick<Store, 'resources' | 'backends' | 'leader' | 'audit' | 'groupOwners'>;
  /** Where resource groups are; null or left out: switched off. */
  readonly resourceGroups?: SchemaStores | null;
  /** Writes entries of the audit; left out, nothing is recorded there. */
  readonly auditWriter?: Pick<AuditWriter, 'add'>;
  /** Name of this process, unique among replicas and restarts, e.g. host name and a random part. */
  readonly instance: string;
  readonly metrics: Registry;
}

/** Parts of an operator that there are only with Kubernetes. */
export interface KubernetesComponents {
  readonly source: KubernetesSource;
  /** Leadership for statuses; undefined: general leadership. */
  readonly statusLeadership: Leadership | undefined;
  readonly services: KubernetesServices;
  readonly events: EventRecorder;
  readonly credentials: SecretCredentials;
  readonly webhook: WebhookParts;
  readonly stop: () => Promise<void>;
}

export interface SourceComponents {
  readonly source: ResourceSource;
  readonly namespace: string;
  readonly leadership: Leadership;
  readonly kubernetes?: KubernetesComponents;
}
