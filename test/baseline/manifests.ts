import type { Program } from './program.ts';

/** Words of manifests of the baseline, `enginegateway.dev/v1`, and those of the resource API as it is now. */
const words: readonly (readonly [RegExp, string])[] = [[/\benginegateway\.dev\/v1\b/g, 'enginegateway.dev/v1beta1']];

/**
 * Converts manifests of the baseline to those that a program reads. Words stay on their lines, so that places in files
 * are compared too.
 */
export function manifestsFor({ isBaseline }: Program, text: string): string {
  return isBaseline ? text : words.reduce((before, [old, present]) => before.replaceAll(old, present), text);
}
