import type { UserNamespace } from '../userNamespace.ts';
import { groupNames, type SourceAnswer } from './groupSource.ts';

/**
 * The groups that an issuer names, with its prefix; without groups of another issuer
 * (docs/request-user.md#several-issuers), which a note counts.
 */
export function issuerGroups(answer: SourceAnswer, names: UserNamespace): SourceAnswer {
  const own: string[] = [];
  for (const group of answer.groups) {
    const name = names.nameOf(group);
    if (name !== null) own.push(name);
  }
  const foreign = answer.groups.length - own.length;
  const groups = names.prefix === '' ? own : groupNames(own);
  if (foreign === 0) return { ...answer, groups };
  const subject = foreign === 1 ? 'one group is' : `${foreign} groups are`;
  return { groups, note: `${subject} left out: the names begin with the groupPrefix of another issuer` };
}
