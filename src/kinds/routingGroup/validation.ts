import { durationMs, durationProblem } from '../../model/durationField.ts';
import type { Problem } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import { groupNameProblem } from '../groupFindings.ts';
import {
  FALLBACK_TO_ITSELF,
  FALLBACK_TWICE,
  HOLD_BEYOND_WAIT,
  queueDurationBounds,
  RoutingGroupSpec,
  WAIT_WITHOUT_QUEUE,
} from './spec.ts';

const checkSpec = compileCheck(RoutingGroupSpec, 'spec');

/**
 * Mistakes in the spec of a RoutingGroup.
 * @param name of the group, where it is known: `spec.name` or metadata.name
 */
export function groupProblems(spec: unknown, name?: string): readonly Problem[] {
  const checked = checkSpec(spec);
  const problems = checked.ok ? [] : [...checked.problems];
  if (!isRecord(spec)) return problems;
  const names: readonly (readonly [field: string, text: unknown])[] = [
    ['spec.name', spec.name],
    ...(Array.isArray(spec.fallbacks) ? spec.fallbacks : []).map(
      (text, index) => [`spec.fallbacks[${index}]`, text] as const,
    ),
  ];
  for (const [field, text] of names) {
    const message = groupNameProblem(text);
    if (message !== null) problems.push({ field, message });
  }
  if (Array.isArray(spec.fallbacks)) {
    const own = name ?? spec.name;
    if (new Set(spec.fallbacks).size < spec.fallbacks.length) {
      problems.push({ field: 'spec.fallbacks', message: withoutField(FALLBACK_TWICE) });
    }
    if (own !== undefined && spec.fallbacks.includes(own)) {
      problems.push({ field: 'spec.fallbacks', message: withoutField(FALLBACK_TO_ITSELF) });
    }
  }
  return isRecord(spec.queue) ? [...problems, ...queueProblems(spec.queue)] : problems;
}

function queueProblems(queue: Readonly<Record<string, unknown>>): readonly Problem[] {
  const problems: Problem[] = [];
  for (const field of ['maxWait', 'hold'] as const) {
    const message = durationProblem(field, queue[field], queueDurationBounds[field]);
    if (message !== null) problems.push({ field: `spec.queue.${field}`, message: withoutField(message) });
  }
  if (queue.whenUnavailable === 'wait' && queue.maxQueued === 0) {
    problems.push({ field: 'spec.queue.maxQueued', message: `is 0: ${WAIT_WITHOUT_QUEUE}` });
  }
  const { hold, maxWait } = queue;
  if (typeof hold === 'string' && typeof maxWait === 'string' && durationMs(hold) > durationMs(maxWait)) {
    problems.push({ field: 'spec.queue.hold', message: withoutField(HOLD_BEYOND_WAIT) });
  }
  return problems;
}

/** A sentence of the API server, whose subject is the field, as what is stated of a field. */
function withoutField(message: string): string {
  return message.slice(message.indexOf(' ') + 1);
}
