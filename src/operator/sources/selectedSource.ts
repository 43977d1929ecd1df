import { GatewayError } from '../../model/errors.ts';
import { labelsFor } from '../../model/labelSelector.ts';
import { type Kind, keyText, type Resource, type ResourceKey, type ResourceStatus } from '../../model/resource.ts';
import type { Fence, SourceName, StoredResource } from '../../store/store.ts';
import { isSelected, type ResourceSelection } from './resourceSelection.ts';
import {
  type ApplyOptions,
  type ChangeListener,
  type FieldWriter,
  type NewResource,
  noSuchResource,
  type Provenance,
  type ResourceChange,
  type ResourceSource,
  type SourceProblem,
  type SourceState,
  type WrittenResource,
} from './source.ts';
import { WatchedSource } from './watchedSource.ts';

/**
 * The resources of a source that are this gateway's own: those of its class, labels and namespaces. All others are as if
 * they were not there, and nothing of theirs is written. What is created gets the class and the labels.
 */
export class SelectedSource extends WatchedSource implements ResourceSource {
  readonly name: SourceName;
  readonly writeNamespace: string;
  readonly #source: ResourceSource;
  readonly #selection: ResourceSelection;
  /** Keys of resources that were selected at their last change. */
  readonly #selected = new Set<string>();

  constructor(source: ResourceSource, selection: ResourceSelection) {
    super();
    this.#source = source;
    this.#selection = selection;
    this.name = source.name;
    this.writeNamespace = source.writeNamespace;
    source.watch((key, part) => this.#changed(key, part));
    source.onState(() => this.tellState());
  }

  restore(stored: readonly StoredResource[]): void {
    this.#source.restore(stored);
  }

  start(syncTimeoutMs: number): Promise<void> {
    return this.#source.start(syncTimeoutMs);
  }

  stop(): Promise<void> {
    return this.#source.stop();
  }

  state(): SourceState {
    return this.#source.state();
  }

  problems(): readonly SourceProblem[] {
    return this.#source.problems();
  }

  list(kind: Kind): readonly Resource[] {
    return this.#source.list(kind).filter((resource) => this.selects(resource));
  }

  override changeCount(kind: Kind): number {
    return this.#source.changeCount(kind);
  }

  get(key: ResourceKey): Resource | null {
    return this.#own(this.#source.get(key));
  }

  override selects(resource: Resource): boolean {
    return isSelected(this.#selection, resource);
  }

  override isOfAnother(key: ResourceKey): boolean {
    const resource = this.#source.get(key);
    return resource !== null && !this.selects(resource);
  }

  provenance(key: ResourceKey): Provenance | null {
    return this.get(key) === null ? null : this.#source.provenance(key);
  }

  override writers(key: ResourceKey): readonly FieldWriter[] {
    return this.#source.writers(key);
  }

  override lastWrite(key: ResourceKey): WrittenResource | null {
    return this.#source.lastWrite(key);
  }

  async create(fresh: NewResource): Promise<Resource> {
    return await this.#source.create(this.complete(fresh));
  }

  /** A resource with the class and the labels that make it this gateway's own. @throws GatewayError EG_IMPOSSIBLE */
  complete<Fresh extends NewResource>(fresh: Fresh): Fresh {
    const { gatewayClass, labels: selector } = this.#selection;
    const labels = selector === null ? {} : labelsFor(selector);
    if (labels === null) {
      throw new GatewayError(
        'EG_IMPOSSIBLE',
        'no labels meet resources.labelSelector, so that nothing can be created; change it in the configuration',
      );
    }
    return {
      ...fresh,
      labels: { ...labels, ...fresh.labels },
      spec: gatewayClass === null ? fresh.spec : { gatewayClassName: gatewayClass, ...fresh.spec },
    };
  }

  async apply(key: ResourceKey, change: ResourceChange, options: ApplyOptions): Promise<Resource> {
    if (this.get(key) === null) throw noSuchResource(key);
    return await this.#source.apply(key, change, options);
  }

  async delete(key: ResourceKey, expectedVersion: string | null): Promise<boolean> {
    return !this.isOfAnother(key) && (await this.#source.delete(key, expectedVersion));
  }

  async patchStatus(key: ResourceKey, uid: string, status: ResourceStatus, fence: Fence | null): Promise<void> {
    if (this.get(key) !== null) await this.#source.patchStatus(key, uid, status, fence);
  }

  #own(resource: Resource | null): Resource | null {
    return resource !== null && this.selects(resource) ? resource : null;
  }

  /** Passes on what is about own resources, and about those that have ceased to be. */
  readonly #changed: ChangeListener = (key, part) => {
    const text = keyText(key);
    const wasSelected = this.#selected.delete(text);
    const selected = this.get(key) !== null;
    if (selected) this.#selected.add(text);
    if (selected || wasSelected) this.tellChange(key, part);
  };
}
