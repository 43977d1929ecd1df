import {
  IconBinaryTree,
  IconChartLine,
  IconGauge,
  IconHistory,
  IconHourglass,
  type IconProps,
  IconRoute,
  IconServer2,
} from '@tabler/icons-react';
import type { ComponentType } from 'react';

/** A page: an entry of the menu, code of its own that is loaded when it is first shown. */
export interface Page {
  /** Name in `uiConfiguration.disablePages` and `pagePermissions`. */
  readonly id: string;
  /** Path below the gateway's, without slashes around; empty for the landing page. */
  readonly path: string;
  readonly title: string;
  readonly icon: ComponentType<IconProps>;
  readonly load: () => Promise<{ default: ComponentType }>;
}

/** All pages in the order of the menu. Adding one: docs/user-interface.md, "For developers". */
export const pages: readonly Page[] = [
  {
    id: 'dashboard',
    path: '',
    title: 'Dashboard',
    icon: IconChartLine,
    load: () => import('../pages/dashboard/DashboardPage.tsx'),
  },
  {
    id: 'cluster',
    path: 'clusters',
    title: 'Active Backends',
    icon: IconServer2,
    load: () => import('../pages/clusters/ClustersPage.tsx'),
  },
  {
    id: 'history',
    path: 'history',
    title: 'Query History',
    icon: IconHistory,
    load: () => import('../pages/history/HistoryPage.tsx'),
  },
  {
    id: 'routing-rules',
    path: 'routing-rules',
    title: 'Routing Rules',
    icon: IconRoute,
    load: () => import('../pages/rules/RulesPage.tsx'),
  },
  {
    id: 'limits',
    path: 'limits',
    title: 'Limits',
    icon: IconGauge,
    load: () => import('../pages/limits/LimitsPage.tsx'),
  },
  {
    id: 'queue',
    path: 'queue',
    title: 'Queue',
    icon: IconHourglass,
    load: () => import('../pages/queue/QueuePage.tsx'),
  },
  {
    id: 'resource-group',
    path: 'resource-groups',
    title: 'Resource Groups',
    icon: IconBinaryTree,
    load: () => import('../pages/resourceGroups/ResourceGroupsPage.tsx'),
  },
];

/**
 * Pages that a user is shown: not switched off, and among the permissions where there are any
 * (docs/authentication.md#roles).
 */
export function visiblePages(
  all: readonly Page[],
  disabled: readonly string[],
  permissions: readonly string[],
): readonly Page[] {
  return all.filter(({ id }) => !disabled.includes(id) && (permissions.length === 0 || permissions.includes(id)));
}
