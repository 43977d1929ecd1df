import type { GroupsFile } from '../model/groupsFile/storedGroups.ts';
import type { BackendRow } from '../store/store.ts';

/** A rule as a rules file has it (docs/rules.md#fields). */
export interface ExportedRule {
  readonly name: string;
  readonly description?: string;
  readonly priority?: number;
  readonly condition: string;
  readonly actions: readonly string[];
}

/** What a gateway that ran before has without resources. */
export interface Exportable {
  /** Rows of `gateway_backend`. */
  readonly clusters: readonly BackendRow[];
  /** Rules of a rules file, in its order. */
  readonly rules: readonly ExportedRule[];
  /** Resource groups by environment; left out, there are none. */
  readonly resourceGroups?: readonly {
    readonly environment: string;
    /** Where they are, as `useSchema` names it; null: the gateway's own. */
    readonly database: string | null;
    readonly file: GroupsFile;
  }[];
}

/** What becomes a resource. */
export interface ExportedResource {
  readonly registryName: string;
  /** Its spec but for `name`, which is set where the registry name is no name of a resource. */
  readonly spec: Readonly<Record<string, unknown>>;
}
