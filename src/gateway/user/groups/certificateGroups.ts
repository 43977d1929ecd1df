import { certificateValues } from '../userMapping.ts';
import { type Asker, type GroupSource, groupNames, type SourceAnswer } from './groupSource.ts';

export class CertificateGroups implements GroupSource {
  readonly name = 'certificate';
  readonly #field: string;

  /** @param field as `clientCertificateIdentityField` */
  constructor(field: string) {
    this.#field = field;
  }

  groupsOf({ evidence: { source, certificate } }: Asker): SourceAnswer {
    if (certificate === undefined)
      return { groups: [], note: `the user does not come from a client certificate (${source})` };
    return { groups: groupNames(certificateValues(certificate, this.#field)) };
  }

  describedGroupsOf(asker: Asker): SourceAnswer {
    return this.groupsOf(asker);
  }
}
