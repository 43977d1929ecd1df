import { type Asker, type GroupSource, groupNames, type SourceAnswer } from './groupSource.ts';

/** The groups that the Kubernetes API server has of the service account whose token names the user. */
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
