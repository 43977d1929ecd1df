import { problemText } from '../../model/errors.ts';
import { keyOf, keyText, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { LimitPolicy } from '../../routing/admissionPolicy.ts';
import { type Acceptance, groupNotAllowed, refused, withLastGood } from '../acceptance.ts';
import { servedGroups } from '../groupReferences.ts';
import type { KindProgram, ProgramSettings, RoutingDraft } from '../kindProgram.ts';
import { isPaused } from '../paused.ts';
import { PolicyVersions } from '../policyVersions.ts';
import { namedGroups } from './limitMatch.ts';
import { type LimitOutcome, limitPolicy, limitReferences, limitRefusal } from './limitOutcome.ts';
import type { QueryLimitSpec } from './spec.ts';
import { limitProblems } from './validation.ts';

/** The policy of a version with the routing groups it names, or why it has none. */
type Judged = Good | { readonly acceptance: Acceptance };
interface Good {
  readonly policy: LimitPolicy;
  readonly groups: readonly string[];
}

const accepted: Acceptance = { status: 'True', reason: 'Accepted', message: 'the limit is valid', final: false };

export class LimitProgram implements KindProgram {
  readonly #settings: Pick<ProgramSettings, 'policy'>;
  readonly #versions = new PolicyVersions<Judged>();
  /** Last active policies by uid. */
  readonly #lastGood = new Map<string, Good>();

  constructor(settings: Pick<ProgramSettings, 'policy'>) {
    this.#settings = settings;
  }

  restore(resources: readonly Resource[]): void {
    for (const resource of resources) {
      const judged = this.#judge(resource);
      if ('policy' in judged) this.#lastGood.set(resource.metadata.uid, judged);
    }
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, LimitOutcome> {
    const live = resources.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const served = servedGroups(draft.clusters, draft.admission.groups);
    const outcomes = new Map<string, LimitOutcome>();
    const limits: LimitPolicy[] = [];
    for (const resource of live) {
      const outcome = this.#outcome(resource, served);
      outcomes.set(keyText(outcome.key), outcome);
      if (outcome.policy !== null) limits.push(outcome.policy);
    }
    const uids = new Set(live.map(({ metadata }) => metadata.uid));
    this.#versions.keep(uids);
    for (const uid of this.#lastGood.keys()) if (!uids.has(uid)) this.#lastGood.delete(uid);
    draft.admission = { ...draft.admission, limits: limits.sort((a, b) => (a.key < b.key ? -1 : 1)) };
    return outcomes;
  }

  #outcome(resource: Resource, served: ReadonlySet<string>): LimitOutcome {
    const { uid } = resource.metadata;
    const paused = isPaused(resource);
    const judged = this.#judge(resource);
    const lastGood = this.#lastGood.get(uid) ?? null;
    const inForce = 'policy' in judged && !paused ? judged : lastGood;
    if (inForce !== null) this.#lastGood.set(uid, inForce);
    const { groups } = 'policy' in judged ? judged : (inForce ?? { groups: [] });
    return {
      key: keyOf(resource),
      resource,
      registryName: registryNameOf(resource),
      paused,
      acceptance:
        'policy' in judged ? accepted : lastGood === null ? judged.acceptance : withLastGood(judged.acceptance),
      policy: inForce?.policy ?? null,
      references: limitReferences(groups, served),
    };
  }

  #judge(resource: Resource): Judged {
    const { groups: bindings } = this.#settings.policy;
    return this.#versions.of(resource, '', () => {
      const problems = limitProblems(resource.spec);
      if (problems.length > 0) return { acceptance: refused('InvalidSpec', problemText(problems)) };
      const spec = resource.spec as QueryLimitSpec;
      const refusal = limitRefusal(bindings, resource.metadata.namespace, spec);
      if (refusal !== null) return { acceptance: groupNotAllowed(refusal) };
      return { policy: limitPolicy(resource.metadata, spec, bindings), groups: namedGroups(spec) };
    });
  }
}
