import type { Value, ValueKind } from '../values/value.ts';
import { MethodTable } from './methodTable.ts';

/** A class that rules may name: its static methods, constants, constructors, and kinds of its instances. */
export class LibraryClass {
  readonly name: string;
  readonly statics: MethodTable;
  /** Constructors are the overloads of `new`; empty if the class cannot be instantiated. */
  readonly constructors: MethodTable;
  readonly fields = new Map<string, Value>();
  /** Kinds of its instances, for `is`. */
  readonly instances: readonly ValueKind[];

  constructor(name: string, instances: readonly ValueKind[] = []) {
    this.name = name;
    this.statics = new MethodTable(name, 'operands');
    this.constructors = new MethodTable(name, 'operands');
    this.instances = instances;
  }

  field(name: string, value: Value): this {
    this.fields.set(name, value);
    return this;
  }
}
