import { problemText } from '../../model/errors.ts';
import { claimNames } from '../../model/nameClaims.ts';
import { keyOf, keyText, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { GroupPolicy } from '../../routing/admissionPolicy.ts';
import { type Acceptance, groupNotAllowed, nameConflict, refused, withLastGood } from '../acceptance.ts';
import { clustersByGroup } from '../groupReferences.ts';
import type { KindProgram, ProgramSettings, RoutingDraft } from '../kindProgram.ts';
import { isPaused } from '../paused.ts';
import { PolicyVersions } from '../policyVersions.ts';
import { type GroupOutcome, groupPolicy, groupReferences, groupRefusal } from './groupOutcome.ts';
import type { RoutingGroupSpec } from './spec.ts';
import { groupProblems } from './validation.ts';

type Judged = { readonly policy: GroupPolicy } | { readonly acceptance: Acceptance };

const accepted: Acceptance = {
  status: 'True',
  reason: 'Accepted',
  message: 'the routing group is valid',
  final: false,
};

export class GroupProgram implements KindProgram {
  readonly #settings: Pick<ProgramSettings, 'policy'>;
  readonly #versions = new PolicyVersions<Judged>();
  readonly #lastGood = new Map<string, GroupPolicy>();

  constructor(settings: Pick<ProgramSettings, 'policy'>) {
    this.#settings = settings;
  }

  restore(resources: readonly Resource[]): void {
    for (const resource of resources) {
      const judged = this.#judge(resource);
      if ('policy' in judged) this.#lastGood.set(resource.metadata.uid, judged.policy);
    }
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, GroupOutcome> {
    const live = resources.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const holders = claimNames(live);
    const counts = clustersByGroup(draft.clusters);
    const outcomes = new Map<string, GroupOutcome>();
    const policies: GroupPolicy[] = [];
    for (const resource of live) {
      const outcome = this.#outcome(resource, holders.get(registryNameOf(resource)) ?? resource, counts);
      outcomes.set(keyText(outcome.key), outcome);
      if (outcome.policy !== null) policies.push(outcome.policy);
    }
    const uids = new Set(live.map(({ metadata }) => metadata.uid));
    this.#versions.keep(uids);
    for (const uid of this.#lastGood.keys()) if (!uids.has(uid)) this.#lastGood.delete(uid);
    policies.sort((a, b) => (a.name < b.name ? -1 : 1));
    draft.admission = { ...draft.admission, groups: new Map(policies.map((policy) => [policy.name, policy])) };
    return outcomes;
  }

  #outcome(resource: Resource, holder: Resource, counts: ReadonlyMap<string, number>): GroupOutcome {
    const { uid } = resource.metadata;
    const name = registryNameOf(resource);
    const paused = isPaused(resource);
    const judged: Judged = holder === resource ? this.#judge(resource) : { acceptance: nameConflict(resource, holder) };
    const last = this.#lastGood.get(uid);
    const lastGood = holder === resource && last?.name === name ? last : null;
    const policy = 'policy' in judged && !paused ? judged.policy : lastGood;
    if (policy !== null) this.#lastGood.set(uid, policy);
    const declared = 'policy' in judged ? judged.policy : (policy ?? { name, fallbacks: [] });
    return {
      key: keyOf(resource),
      resource,
      registryName: name,
      paused,
      acceptance:
        'policy' in judged ? accepted : lastGood === null ? judged.acceptance : withLastGood(judged.acceptance),
      policy,
      references: groupReferences(declared, counts),
      clusters: counts.get(name) ?? 0,
    };
  }

  #judge(resource: Resource): Judged {
    const { groups } = this.#settings.policy;
    const name = registryNameOf(resource);
    return this.#versions.of(resource, name, () => {
      const problems = groupProblems(resource.spec, name);
      if (problems.length > 0) return { acceptance: refused('InvalidSpec', problemText(problems)) };
      const policy = groupPolicy(name, resource.spec as RoutingGroupSpec);
      const refusal = groupRefusal(groups, resource.metadata.namespace, policy);
      return refusal === null ? { policy } : { acceptance: groupNotAllowed(refusal) };
    });
  }
}
