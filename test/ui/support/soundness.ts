import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Window } from './browser.ts';

const axeFile = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** Violations that axe finds moderate or worse on the page as it is now, WCAG 2.2 AA and best practices. */
async function accessibilityProblems(page: Page): Promise<readonly string[]> {
  const known = await page.evaluate('typeof axe');
  // By the debugger's protocol, which the content security policy does not concern.
  if (known === 'undefined') await page.evaluate(await readFile(axeFile, 'utf8'));
  const found = (await page.evaluate('axe.run(document, { resultTypes: ["violations"] })')) as {
    violations: readonly {
      id: string;
      impact: string;
      help: string;
      nodes: readonly { html: string; failureSummary: string }[];
    }[];
  };
  return found.violations
    .filter(({ impact }) => impact !== 'minor')
    .map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`,
    );
}

/** Elements that reach beyond the window's width: the page would have to be scrolled sideways. */
async function overflow(page: Page): Promise<number> {
  return await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}

/**
 * Texts that are cut off where nothing says the rest: neither their `title` nor one of what is around them. Controls that a text is
 * typed into show the rest themselves.
 */
const clippedTexts = `[...document.querySelectorAll('body *')].flatMap((element) => {
  const { overflowX, clipPath } = getComputedStyle(element);
  const isClipping = (overflowX === 'hidden' || overflowX === 'clip') && clipPath === 'none';
  if (!isClipping || element.clientWidth < 2 || element.scrollWidth <= element.clientWidth + 1) return [];
  const text = element.innerText?.trim() ?? '';
  const isSaid = element.closest('[title], [aria-hidden="true"], svg') !== null || element.matches('input, textarea, html, body');
  return text === '' || isSaid ? [] : [text.slice(0, 100) + ' in ' + element.outerHTML.slice(0, 200)];
})`;

/**
 * Switches that cannot be moved and do not stand out from what is around them, or do not show on which side they are: axe leaves
 * out what is disabled, but anyone who may only look has to read it (WCAG 2.2, 1.4.11).
 */
const faintSwitches = `(() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  /** Red, green and blue of colours that lie over each other, the last one on top. */
  const painted = (colors) => {
    context.fillStyle = getComputedStyle(document.documentElement).colorScheme.includes('dark') ? 'black' : 'white';
    context.fillRect(0, 0, 1, 1);
    for (const color of colors) {
      context.fillStyle = color;
      context.fillRect(0, 0, 1, 1);
    }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [darker, lighter] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (lighter + 0.05) / (darker + 0.05);
  };
  const around = (element) => (element === null ? [] : [...around(element.parentElement), getComputedStyle(element).backgroundColor]);
  return [...document.querySelectorAll('input[role="switch"]:disabled')].flatMap((input) => {
    const track = input.parentElement.querySelector('.mantine-Switch-track');
    const thumb = input.parentElement.querySelector('.mantine-Switch-thumb');
    if (track === null || thumb === null || track.getClientRects().length === 0) return [];
    const outside = painted(around(track.parentElement));
    const edges = [getComputedStyle(track).backgroundColor, getComputedStyle(track).borderTopColor];
    const stands = Math.max(...edges.map((color) => contrast(painted([...around(track.parentElement), color]), outside)));
    const inside = painted(around(track));
    const marks = [getComputedStyle(thumb).backgroundColor, getComputedStyle(thumb).borderTopColor];
    const shows = Math.max(...marks.map((color) => contrast(painted([...around(track), color]), inside)));
    return stands >= 3 && shows >= 3 ? [] : [input.getAttribute('aria-label') + ': ' + stands.toFixed(1) + ' and ' + shows.toFixed(1) + ' to 1'];
  });
})()`;

/**
 * Nothing went wrong in the page, and it can be used by everybody once what just opened has been painted.
 * @param place what a failure names
 */
export async function expectSound({ page, defects }: Window, place = 'the page'): Promise<void> {
  await expect.poll(() => accessibilityProblems(page), { interval: 200, message: place }).toEqual([]);
  await expect.poll(() => overflow(page), { message: place }).toBe(0);
  expect(defects, place).toEqual([]);
}

/** As `expectSound`, in dark colours and in light ones, in which the page stays. */
export async function expectSoundInBothSchemes(window: Window, place = 'the page'): Promise<void> {
  for (const colorScheme of ['dark', 'light'] as const) {
    await window.page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await expectSound(window, `${place}, ${colorScheme}`);
  }
}

/** As `expectSound`; and in a narrow window with dark colours, after which the page is wide and light. */
export async function expectSoundInBothWidths(window: Window): Promise<void> {
  await expectSound(window);
  await window.page.setViewportSize({ width: 420, height: 900 });
  await window.page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
  await expectSound(window, 'the narrow page');
  await window.page.setViewportSize({ width: 1280, height: 900 });
  await window.page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
}

/**
 * As `expectSound`; and no text is cut off where nothing says the rest, and switches that cannot be moved show where they stand.
 * @param place what a failure names
 */
export async function expectReadable(window: Window, place = 'the page'): Promise<void> {
  const { page } = window;
  await expectSound(window, place);
  expect(await page.evaluate(clippedTexts), `${place}: texts that are cut off`).toEqual([]);
  expect(await page.evaluate(faintSwitches), `${place}: contrast of switches`).toEqual([]);
}
