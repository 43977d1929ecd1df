import { randomUUID } from 'node:crypto';
import { keyOf, keyText, type Resource, type ResourceKey } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { AuditEntry } from '../../store/audit.ts';
import type { AuditWriter } from '../../store/auditWriter.ts';
import type { ForeignWrite } from '../reconcile/foreignWrites.ts';
import { fileRuleKey } from '../registry/rulesFile/fileRules.ts';
import type { ResourceSource } from '../sources/source.ts';
import { thingsOfRulesFile } from './auditedThings.ts';
import { auditText, digestOf, digestOfAbsence, digestOfWrite, stateOf } from './auditText.ts';
import { entryDefaults, SourceChanges, type SourceChangesOptions } from './sourceChanges.ts';

/** Program that writes rows of the registry beside the gateway. */
const OTHER_GATEWAY = 'another gateway (gateway_backend)';

/** What the audit of an operator works with. */
export interface OperatorAuditOptions extends Omit<SourceChangesOptions, 'source'> {
  readonly source: Pick<ResourceSource, 'name' | 'writers' | 'get' | 'lastWrite'>;
  readonly writer: Pick<AuditWriter, 'add'>;
}

/** The operator's part of the audit (docs/authentication.md#audit): changes that no call made, and digests for those that one did. */
export class OperatorAudit {
  readonly #options: OperatorAuditOptions;
  readonly #changes: SourceChanges;

  constructor(options: OperatorAuditOptions) {
    this.#options = options;
    this.#changes = new SourceChanges(options);
  }

  start(): void {
    this.#changes.start();
  }

  stop(): Promise<void> {
    return this.#changes.stop();
  }

  /** Notes that resources may have changed. */
  note(): void {
    this.#changes.note();
  }

  /**
   * Digest of what a call left of a resource, so that its change is not recorded again as one of the source.
   * @param uid of the resource that was changed or deleted
   */
  digestOfResource(key: ResourceKey, uid: string): string {
    const written = this.#options.source.lastWrite(key);
    if (written?.resource.metadata.uid === uid) return digestOfWrite(digestOf(written.resource), written.writers);
    const resource = this.#options.source.get(key);
    return resource === null || resource.metadata.uid !== uid ? digestOfAbsence(uid) : digestOf(resource);
  }

  /** As `digestOfResource`, of a rule of the rules file; null where it has none of that name. */
  async digestOfFileRule(name: string): Promise<string | null> {
    const file = this.#options.rulesFile();
    const rules = file === null ? null : await thingsOfRulesFile(file);
    return rules?.get(keyText(fileRuleKey(name)))?.digest ?? null;
  }

  /** Records that annotations of a resource were removed as their effect had ended. */
  recordEnded(before: Resource): void {
    const after = this.#options.source.get(keyOf(before));
    this.#add(before, {
      source: 'gateway',
      action: 'change',
      manager: null,
      before: auditText(stateOf(before)),
      after: after === null ? null : auditText(stateOf(after)),
    });
  }

  /** Records that a change of a row by another gateway was taken over. */
  recordForeignWrite({ resource, outcome, fields }: ForeignWrite): void {
    if (outcome !== 'adopted') return;
    const values = (of: 'row' | 'resource') => Object.fromEntries(fields.map((field) => [field.field, field[of]]));
    const isDeleted = fields.length === 0;
    this.#add(resource, {
      source: 'database',
      action: isDeleted ? 'delete' : 'change',
      manager: OTHER_GATEWAY,
      before: auditText(isDeleted ? stateOf(resource) : values('resource')),
      after: isDeleted ? null : auditText(values('row')),
    });
  }

  #add(resource: Resource, change: Pick<AuditEntry, 'source' | 'action' | 'manager' | 'before' | 'after'>): void {
    const key = keyOf(resource);
    const name = registryNameOf(resource);
    this.#options.writer.add({
      ...entryDefaults,
      ...change,
      id: randomUUID(),
      at: this.#options.clock.now(),
      kind: key.kind,
      namespace: key.namespace,
      name,
      resource: key.name,
      object: `${key.kind} ${name}`,
      digest: this.digestOfResource(key, resource.metadata.uid),
    });
  }
}
