import { type Asker, type GroupSource, groupNames, type SourceAnswer } from './groupSource.ts';

/** Groups of a service account from the Kubernetes API server. */
export class TokenReviewGroups implements GroupSource {
  readonly name = 'tokenReview';

  groupsOf({ evidence: { source, kubernetesGroups } }: Asker): SourceAnswer {
    if (kubernetesGroups === undefined)
      return { groups: [], note: `the user does not come from a token of a service account (${source})` };
    return { groups: groupNames(kubernetesGroups) };
  }

  describedGroupsOf(asker: Asker): SourceAnswer {
    return this.groupsOf(asker);
  }
}
