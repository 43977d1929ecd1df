import type { TextPlace } from '../rules/compile/definition.ts';
import type { CompileContext } from '../rules/language/scope.ts';

/** A manifest that `engine-gateway validate` checks. */
export interface CheckedManifest {
  /** `metadata.name` */
  readonly name: string;
  readonly spec: Readonly<Record<string, unknown>>;
  /** What rules are compiled for. */
  readonly context: CompileContext;
  /** Where the content of a text begins in the file; null when it is not there. */
  textPlace(path: readonly (string | number)[]): TextPlace | null;
}

/** A finding in a manifest beyond the mistakes of its spec. */
export interface ManifestFinding {
  /** `problem`: it cannot work; `warning`: it may be intended. */
  readonly severity: 'problem' | 'warning';
  readonly message: string;
  /** A field such as `spec.proxyTo`, or a place in the file. */
  readonly at: string | { readonly line: number; readonly column: number };
}
