import type { ResourceOutcome } from '../../kinds/outcome.ts';
import { keyText, type Resource, type ResourceKey } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { RulesFile } from '../../rules/ruleCompiler.ts';
import type { AuditSource } from '../../store/audit.ts';
import { fileRules } from '../registry/rulesFile/fileRules.ts';
import type { FieldWriter, ResourceSource } from '../sources/source.ts';
import { digestOf, stateOf } from './auditText.ts';

/** Something whose changes the audit follows, by its digest; of thousands few have to be looked at. */
export interface FollowedThing {
  readonly digest: string;
  readonly thing: () => AuditedThing;
}

/** A resource, or a rule of the rules file. */
export interface AuditedThing {
  readonly key: ResourceKey;
  /** Name that people know it by. */
  readonly name: string;
  readonly uid: string;
  /** Where changes of it come from that were not made by REST. */
  readonly source: AuditSource;
  readonly digest: string;
  readonly state: object;
  /** Who wrote it when; null: its source does not know. */
  readonly writers: readonly FieldWriter[] | null;
}

/** Names of resource sources in the audit. */
export const sourceNames = { kubernetes: 'kubernetes', directory: 'file', database: 'database' } as const;

/** A resource as the audit follows it. */
export function thingOfResource(
  { key, resource }: Pick<ResourceOutcome, 'key' | 'resource'>,
  source: Pick<ResourceSource, 'name' | 'writers'>,
): FollowedThing {
  const digest = digestOf(resource);
  const thing = (): AuditedThing => ({
    key,
    name: registryNameOf(resource),
    uid: resource.metadata.uid,
    source: sourceNames[source.name],
    digest,
    state: stateOf(resource),
    writers: source.name === 'kubernetes' ? source.writers(key) : null,
  });
  return { digest, thing };
}

/** Rules of a rules file, by `keyText`; null while it cannot be read, which is no change of its rules. */
export async function thingsOfRulesFile(file: RulesFile): Promise<ReadonlyMap<string, FollowedThing> | null> {
  const rules = await fileRules(file);
  if (rules === null) return null;
  const things = new Map<string, FollowedThing>();
  for (const { key, fields } of rules) {
    const digest = digestOf({ spec: { ...fields }, metadata: emptyMetadata });
    const { name } = key;
    // Of two rules of a name the first is asked first.
    if (things.has(keyText(key))) continue;
    const rule: AuditedThing = { key, name, uid: '', source: 'file', digest, state: fields, writers: null };
    things.set(keyText(key), { digest, thing: () => rule });
  }
  return things;
}

const emptyMetadata: Resource['metadata'] = {
  name: '',
  namespace: '',
  uid: '',
  resourceVersion: '0',
  generation: 0,
  creationTimestamp: '',
};
