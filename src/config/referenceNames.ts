import { REFERENCE_PRODUCT } from '../model/names.ts';

const TRINO_NAMES = /\btrino(?:QueryProperties|RequestUser|Status)\b|\bX-Trino-/i;
const ENGINE_NAMES = /\bengine(?:QueryProperties|RequestUser)\b|\bX-Engine-/i;

/**
 * Which product the names in a text of rules are of: `Trino` or `Engine` by objects and headers. Null if it holds
 * neither, or both.
 */
export function productNamedIn(text: string): 'Trino' | 'Engine' | null {
  const isTrino = TRINO_NAMES.test(text);
  if (isTrino === ENGINE_NAMES.test(text)) return null;
  return isTrino ? REFERENCE_PRODUCT : 'Engine';
}
