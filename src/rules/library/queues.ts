import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { JavaList } from '../values/collections.ts';
import { compareNatural, indexOfValue, lastIndexOfValue } from '../values/operators.ts';
import type { Value } from '../values/value.ts';
import { collectionMethods, itemsOf, vectorMethods } from './collections.ts';
import { LibraryClass } from './javaClass.ts';
import { MethodTable } from './methodTable.ts';
import { notNull } from './objects.ts';

/** `java.util.Stack`: a list whose end is the top. */
export const stackClass = new LibraryClass('Stack', ['stack']);
stackClass.constructors.add('new', [], () => new JavaList([], 'open', 'stack'));

function top({ items }: JavaList): Value {
  if (items.length === 0) throw new EvaluationError('the stack is empty');
  return items.at(-1) ?? null;
}

/** Methods of Stack: those of Vector, and what looks at the top. */
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

/** `java.util.PriorityQueue` in natural order: a binary heap, laid out as Java's, whose order of iteration rules see. */
export const priorityQueueClass = new LibraryClass('PriorityQueue', ['queue']);
priorityQueueClass.constructors
  .add('new', [], () => new JavaList([], 'open', 'queue'), 'identity')
  .add(
    'new',
    ['int'],
    (_e, _self, capacity) => {
      if (capacity < 1) throw new EvaluationError('the capacity of a PriorityQueue is at least 1');
      return new JavaList([], 'open', 'queue');
    },
    'identity',
  )
  .add(
    'new',
    ['elements'],
    (e, _self, elements) => {
      const items = itemsOf(elements, e);
      e.reserveElements(items.length, items.length);
      const heap = items.map((item) => notNull(item, 'PriorityQueue'));
      for (let at = (heap.length >>> 1) - 1; at >= 0; at -= 1) siftDown(heap, at, heap[at] ?? null, e);
      return new JavaList(heap, 'open', 'queue');
    },
    'identity',
  );

/** Copying the elements of a collection before it changes, and growing it. */
function changed(self: JavaList, e: Evaluation): Value[] {
  e.willChange(self);
  return self.items;
}

function append(self: JavaList, value: Value, e: Evaluation): void {
  e.reserveElements(self.items.length + 1, 1);
  changed(self, e).push(value);
}

function isBefore(a: Value, b: Value, e: Evaluation): boolean {
  e.step();
  return compareNatural(a, b, e) < 0;
}

function siftUp(heap: Value[], from: number, value: Value, e: Evaluation): void {
  let at = from;
  while (at > 0) {
    const parent = (at - 1) >>> 1;
    if (!isBefore(value, heap[parent] ?? null, e)) break;
    heap[at] = heap[parent] ?? null;
    at = parent;
  }
  heap[at] = value;
}

function siftDown(heap: Value[], from: number, value: Value, e: Evaluation): void {
  let at = from;
  while (at < heap.length >>> 1) {
    let child = 2 * at + 1;
    if (child + 1 < heap.length && isBefore(heap[child + 1] ?? null, heap[child] ?? null, e)) child += 1;
    if (!isBefore(heap[child] ?? null, value, e)) break;
    heap[at] = heap[child] ?? null;
    at = child;
  }
  heap[at] = value;
}

function offer(self: JavaList, value: Value, e: Evaluation): boolean {
  notNull(value, 'PriorityQueue');
  // Natural order is asked of the first element too.
  compareNatural(value, self.items[0] ?? value, e);
  append(self, value, e);
  siftUp(self.items, self.items.length - 1, value, e);
  return true;
}

/** Takes out the element at a place, as `removeAt` of Java does. */
function take(self: JavaList, at: number, e: Evaluation): void {
  const heap = changed(self, e);
  const moved = heap.pop() ?? null;
  if (at === heap.length) return;
  siftDown(heap, at, moved, e);
  if (heap[at] === moved) siftUp(heap, at, moved, e);
}

function poll(self: JavaList, e: Evaluation): Value {
  const head = self.items[0] ?? null;
  if (self.items.length > 0) take(self, 0, e);
  return head;
}

function head(self: JavaList): Value {
  if (self.items.length === 0) throw new EvaluationError('the queue is empty');
  return self.items[0] ?? null;
}

/** Methods of PriorityQueue. */
export const queueMethods = new MethodTable('PriorityQueue', 'operands')
  .include(collectionMethods)
  .add('add', ['any'], (e, self: JavaList, value) => offer(self, value, e))
  .add('offer', ['any'], (e, self: JavaList, value) => offer(self, value, e))
  .add('addAll', ['elements'], (e, self: JavaList, others) => {
    const items = itemsOf(others, e);
    if (others === self) throw new EvaluationError('a PriorityQueue cannot be added to itself');
    for (const item of items) offer(self, item, e);
    return items.length > 0;
  })
  .add('contains', ['any'], (e, self: JavaList, value) => indexOfValue(self.items, value, e) >= 0)
  .add('peek', [], (_e, self: JavaList) => self.items[0] ?? null)
  .add('element', [], (_e, self: JavaList) => head(self))
  .add('poll', [], (e, self: JavaList) => poll(self, e))
  .add('remove', [], (e, self: JavaList) => {
    head(self);
    return poll(self, e);
  })
  .add('remove', ['any'], (e, self: JavaList, value) => {
    const at = indexOfValue(self.items, value, e);
    if (at >= 0) take(self, at, e);
    return at >= 0;
  })
  .add('clear', [], (e, self: JavaList) => {
    e.willChange(self);
    self.items = [];
    return null;
  });
