import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { JavaList } from '../values/collections.ts';
import { compareNatural, indexOfValue, lastIndexOfValue } from '../values/operators.ts';
import type { Value } from '../values/value.ts';
import { collectionMethods, itemsOf, vectorMethods } from './collections.ts';
import { JavaComparator } from './comparator.ts';
import { LibraryClass } from './javaClass.ts';
import { MethodTable } from './methodTable.ts';
import { notNull } from './objects.ts';

/** `java.util.Stack`: a list; its end is the top. */
export const stackClass = new LibraryClass('Stack', ['stack']);
stackClass.constructors.add('new', [], () => new JavaList([], 'open', 'stack'));

function top({ items }: JavaList): Value {
  if (items.length === 0) throw new EvaluationError('the stack is empty');
  return items.at(-1) ?? null;
}

export const stackMethods = new MethodTable('Stack', 'operands')
  .include(vectorMethods)
  .add('push', ['any'], (e, self: JavaList, value) => {
    append(self, value, e);
    return value;
  })
  .add('pop', [], (e, self: JavaList) => {
    const value = top(self);
    changed(self, e).pop();
    return value;
  })
  .add('peek', [], (_e, self: JavaList) => top(self))
  .add('empty', [], (_e, self: JavaList) => self.items.length === 0)
  .add('search', ['any'], (e, self: JavaList, value) => {
    const at = lastIndexOfValue(self.items, value, e);
    return at < 0 ? -1 : self.items.length - at;
  });

/** A PriorityQueue with its order; null: natural order. */
export class JavaQueue extends JavaList {
  readonly comparator: JavaComparator | null;

  constructor(items: Value[], comparator: JavaComparator | null) {
    super(items, 'open', 'queue');
    this.comparator = comparator;
  }
}

/** Reads a Comparator argument, which may be null. */
function comparatorIn(value: Value): JavaComparator | null {
  if (value === null || value instanceof JavaComparator) return value;
  throw new EvaluationError('a PriorityQueue takes a capacity, a collection or a Comparator');
}

function mustBeCapacity(capacity: number): void {
  if (capacity < 1) throw new EvaluationError('the capacity of a PriorityQueue is at least 1');
}

/** `java.util.PriorityQueue`: a binary heap with Java's layout, which determines the order of iteration. */
export const priorityQueueClass = new LibraryClass('PriorityQueue', ['queue']);
priorityQueueClass.constructors
  .addFresh('new', [], () => new JavaQueue([], null))
  .addFresh('new', ['int'], (_e, _self, capacity) => {
    mustBeCapacity(capacity);
    return new JavaQueue([], null);
  })
  .addFresh('new', ['any'], (_e, _self, comparator) => new JavaQueue([], comparatorIn(comparator)))
  .addFresh('new', ['int', 'any'], (_e, _self, capacity, comparator) => {
    mustBeCapacity(capacity);
    return new JavaQueue([], comparatorIn(comparator));
  })
  .addFresh('new', ['elements'], (e, _self, elements) => {
    const items = itemsOf(elements, e);
    e.reserveElements(items.length, items.length);
    const heap = items.map((item) => notNull(item, 'PriorityQueue'));
    const queue = new JavaQueue(heap, elements instanceof JavaQueue ? elements.comparator : null);
    for (let at = (heap.length >>> 1) - 1; at >= 0; at -= 1) siftDown(queue, heap, at, heap[at] ?? null, e);
    return queue;
  });

/** Counts a copy of the elements before a change, and the growth. */
function changed(self: JavaList, e: Evaluation): Value[] {
  e.willChange(self);
  return self.items;
}

function append(self: JavaList, value: Value, e: Evaluation): void {
  e.reserveElements(self.items.length + 1, 1);
  changed(self, e).push(value);
}

function isBefore({ comparator }: JavaQueue, a: Value, b: Value, e: Evaluation): boolean {
  e.step();
  return (comparator === null ? compareNatural(a, b, e) : comparator.compare(a, b, e)) < 0;
}

function siftUp(queue: JavaQueue, heap: Value[], from: number, value: Value, e: Evaluation): void {
  let at = from;
  while (at > 0) {
    const parent = (at - 1) >>> 1;
    if (!isBefore(queue, value, heap[parent] ?? null, e)) break;
    heap[at] = heap[parent] ?? null;
    at = parent;
  }
  heap[at] = value;
}

function siftDown(queue: JavaQueue, heap: Value[], from: number, value: Value, e: Evaluation): void {
  let at = from;
  while (at < heap.length >>> 1) {
    let child = 2 * at + 1;
    if (child + 1 < heap.length && isBefore(queue, heap[child + 1] ?? null, heap[child] ?? null, e)) child += 1;
    if (!isBefore(queue, heap[child] ?? null, value, e)) break;
    heap[at] = heap[child] ?? null;
    at = child;
  }
  heap[at] = value;
}

function offer(self: JavaQueue, value: Value, e: Evaluation): boolean {
  notNull(value, 'PriorityQueue');
  // The comparator is called for the first element too.
  isBefore(self, value, self.items[0] ?? value, e);
  append(self, value, e);
  siftUp(self, self.items, self.items.length - 1, value, e);
  return true;
}

/** Removes the element at an index, like Java's `removeAt`. */
function take(self: JavaQueue, at: number, e: Evaluation): void {
  const heap = changed(self, e);
  const moved = heap.pop() ?? null;
  if (at === heap.length) return;
  siftDown(self, heap, at, moved, e);
  if (heap[at] === moved) siftUp(self, heap, at, moved, e);
}

function poll(self: JavaQueue, e: Evaluation): Value {
  const head = self.items[0] ?? null;
  if (self.items.length > 0) take(self, 0, e);
  return head;
}

function head(self: JavaQueue): Value {
  if (self.items.length === 0) throw new EvaluationError('the queue is empty');
  return self.items[0] ?? null;
}

export const queueMethods = new MethodTable('PriorityQueue', 'operands')
  .include(collectionMethods)
  .add('add', ['any'], (e, self: JavaQueue, value) => offer(self, value, e))
  .add('offer', ['any'], (e, self: JavaQueue, value) => offer(self, value, e))
  .add('addAll', ['elements'], (e, self: JavaQueue, others) => {
    const items = itemsOf(others, e);
    if (others === self) throw new EvaluationError('a PriorityQueue cannot be added to itself');
    for (const item of items) offer(self, item, e);
    return items.length > 0;
  })
  .add('contains', ['any'], (e, self: JavaQueue, value) => indexOfValue(self.items, value, e) >= 0)
  .add('peek', [], (_e, self: JavaQueue) => self.items[0] ?? null)
  .add('comparator', [], (_e, self: JavaQueue) => self.comparator)
  .add('element', [], (_e, self: JavaQueue) => head(self))
  .add('poll', [], (e, self: JavaQueue) => poll(self, e))
  .add('remove', [], (e, self: JavaQueue) => {
    head(self);
    return poll(self, e);
  })
  .add('remove', ['any'], (e, self: JavaQueue, value) => {
    const at = indexOfValue(self.items, value, e);
    if (at >= 0) take(self, at, e);
    return at >= 0;
  })
  .add('clear', [], (e, self: JavaQueue) => {
    e.willChange(self);
    self.items = [];
    return null;
  });
