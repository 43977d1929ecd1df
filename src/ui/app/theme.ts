import {
  ActionIcon,
  convertCssVariables,
  createTheme,
  DEFAULT_THEME,
  Drawer,
  defaultCssVariablesResolver,
  Modal,
  mergeMantineTheme,
  Popover,
  Select,
  Tooltip,
} from '@mantine/core';

const dialog = {
  // The library locks scrolling by a style element, which the content security policy forbids; app.css does it.
  lockScroll: false,
  closeButtonProps: { 'aria-label': 'Close' },
  // A dialog's head is no landmark: the page has one of that kind already.
  attributes: { header: { role: 'presentation' } },
  transitionProps: { duration: 0 },
};

/** Mantine's theme with colours whose contrast holds for small text in both schemes (WCAG 2.2, 1.4.3). */
export const theme = createTheme({
  primaryColor: 'blue',
  primaryShade: { light: 8, dark: 8 },
  defaultRadius: 'sm',
  cursorType: 'pointer',
  respectReducedMotion: true,
  headings: { fontWeight: '600', sizes: { h1: { fontSize: '1.375rem' }, h2: { fontSize: '1.0625rem' } } },
  components: {
    Modal: Modal.extend({ defaultProps: dialog }),
    Drawer: Drawer.extend({ defaultProps: dialog }),
    Popover: Popover.extend({ defaultProps: { shadow: 'md', transitionProps: { duration: 0 } } }),
    // In a landmark, as all other content.
    Tooltip: Tooltip.extend({
      defaultProps: {
        portalProps: { target: '#main' },
        events: { hover: true, focus: true, touch: true },
        multiline: true,
      },
    }),
    Select: Select.extend({ defaultProps: { comboboxProps: { transitionProps: { duration: 0 } } } }),
    ActionIcon: ActionIcon.extend({ defaultProps: { variant: 'subtle', color: 'gray' } }),
  },
});

/** Text on the light tint of a colour in the light scheme: the library's own shades are too pale for small text. */
const textOnTint: Readonly<Record<string, string>> = {
  blue: '#1657a0',
  gray: '#343a40',
  green: '#1b6b2f',
  orange: '#9a3a00',
  red: '#b02525',
  yellow: '#7a4a00',
};

/** Adds the theme's variables to the page by a style sheet object, because the policy forbids style elements. */
export function applyTheme(): void {
  const variables = defaultCssVariablesResolver(mergeMantineTheme(DEFAULT_THEME, theme));
  for (const [color, text] of Object.entries(textOnTint)) {
    variables.light[`--mantine-color-${color}-light`] = `var(--mantine-color-${color}-0)`;
    variables.light[`--mantine-color-${color}-light-hover`] = `var(--mantine-color-${color}-1)`;
    variables.light[`--mantine-color-${color}-light-color`] = text;
  }
  variables.light['--mantine-color-dimmed'] = 'var(--mantine-color-gray-7)';
  variables.dark['--mantine-color-dimmed'] = 'var(--mantine-color-dark-0)';
  variables.light['--mantine-color-placeholder'] = 'var(--mantine-color-gray-7)';
  variables.dark['--mantine-color-placeholder'] = 'var(--mantine-color-dark-0)';
  variables.light['--mantine-color-error'] = 'var(--mantine-color-red-9)';
  variables.dark['--mantine-color-error'] = 'var(--mantine-color-red-4)';
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(convertCssVariables(variables, ':root'));
  document.adoptedStyleSheets.push(sheet);
}
