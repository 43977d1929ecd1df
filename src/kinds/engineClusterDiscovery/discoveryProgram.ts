import { problemText } from '../../model/errors.ts';
import { keyOf, keyText, type Resource } from '../../model/resource.ts';
import { type Acceptance, groupNotAllowed, refused } from '../acceptance.ts';
import type { KindProgram, ProgramSettings } from '../kindProgram.ts';
import type { ResourceOutcome } from '../outcome.ts';
import { isPaused } from '../paused.ts';
import type { DiscoveryReport } from './discoveryReport.ts';
import { ENGINE_CLUSTER_DISCOVERY, type EngineClusterDiscoverySpec } from './spec.ts';
import { discoveryProblems } from './validation.ts';

export interface DiscoveryOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** Null: it is not accepted. Its clusters stay as they are then. */
  readonly spec: EngineClusterDiscoverySpec | null;
  /** Result of the last scan, or null. */
  readonly report: DiscoveryReport | null;
}

export function isDiscoveryOutcome(outcome: ResourceOutcome): outcome is DiscoveryOutcome {
  return outcome.key.kind === ENGINE_CLUSTER_DISCOVERY;
}

const accepted: Acceptance = { status: 'True', reason: 'Accepted', message: 'the discovery is valid', final: false };
const unsupported = refused(
  'DiscoveryUnsupported',
  'a discovery needs resources.source: kubernetes; without it nothing is discovered: declare each cluster instead',
);

/** Says what discoveries are accepted and what became of them; clusters are written by the operator. */
export class DiscoveryProgram implements KindProgram {
  readonly #settings: Pick<ProgramSettings, 'policy' | 'discoveries'>;

  constructor(settings: Pick<ProgramSettings, 'policy' | 'discoveries'>) {
    this.#settings = settings;
  }

  restore(): void {
    // Its clusters are resources themselves.
  }

  refresh(resources: readonly Resource[]): ReadonlyMap<string, DiscoveryOutcome> {
    const live = resources.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    return new Map(live.map((resource) => [keyText(keyOf(resource)), this.#outcome(resource)]));
  }

  #outcome(resource: Resource): DiscoveryOutcome {
    const acceptance = this.#acceptance(resource);
    return {
      key: keyOf(resource),
      resource,
      registryName: resource.metadata.name,
      paused: isPaused(resource),
      acceptance,
      spec: acceptance.status === 'True' ? (resource.spec as EngineClusterDiscoverySpec) : null,
      report: this.#settings.discoveries?.report(resource.metadata.uid) ?? null,
    };
  }

  #acceptance(resource: Resource): Acceptance {
    const problems = discoveryProblems(resource.spec);
    if (problems.length > 0) return refused('InvalidSpec', problemText(problems));
    if (this.#settings.discoveries === undefined) return unsupported;
    const { template } = resource.spec as EngineClusterDiscoverySpec;
    if (template.routingGroup === undefined) return accepted;
    const message = this.#settings.policy.groups.joinRefusal(resource.metadata.namespace, template.routingGroup);
    return message === null ? accepted : groupNotAllowed({ field: 'template.routingGroup', message });
  }
}
