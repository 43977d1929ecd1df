/** Preload of a program under comparison: its wall clock starts at a fixed time, and its random numbers repeat. */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { START } from './scrub.ts';

const RealDate = Date;
const offset = START - RealDate.now();
globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length === 0 ? [RealDate.now() + offset] : args, newTarget) as object,
  get: (target, key, receiver) =>
    key === 'now' ? () => RealDate.now() + offset : (Reflect.get(target, key, receiver) as unknown),
});

let state = 42;
const next = (): number => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state;
};
Math.random = () => next() / 2 ** 32;
crypto.randomUUID = () => {
  const digits = Array.from({ length: 4 }, () => next().toString(16).padStart(8, '0')).join('');
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-8${digits.slice(17, 20)}-${digits.slice(20)}`;
};
syncBuiltinESMExports();
