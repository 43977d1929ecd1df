import {
  IconArrowsDiff,
  IconBinaryTree,
  IconChartBar,
  IconChartLine,
  IconGauge,
  IconHistory,
  IconHourglass,
  IconListDetails,
  type IconProps,
  IconRoute,
  IconServer2,
} from '@tabler/icons-react';
import type { ComponentType } from 'react';

/** An entry of the menu. Its code is loaded when the page is first shown. */
export interface Page {
  /** Name in `uiConfiguration.disablePages` and `pagePermissions`. */
  readonly id: string;
  /** Path below the gateway's, without slashes around; empty for the landing page. */
  readonly path: string;
  readonly title: string;
  readonly icon: ComponentType<IconProps>;
  readonly load: () => Promise<{ default: ComponentType }>;
  /** Pages of single objects, without menu entries; visible to users of this page. */
  readonly details?: readonly DetailPage[];
}

export interface DetailPage extends Pick<Page, 'path' | 'title' | 'load'> {}

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
    details: [{ path: 'clusters/:name', title: 'Backend', load: () => import('../pages/clusters/ClusterPage.tsx') }],
  },
  {
    id: 'history',
    path: 'history',
    title: 'Query History',
    icon: IconHistory,
    load: () => import('../pages/history/HistoryPage.tsx'),
    details: [{ path: 'queries/:queryId', title: 'Query', load: () => import('../pages/query/QueryPage.tsx') }],
  },
  {
    id: 'workload',
    path: 'workload',
    title: 'Workload',
    icon: IconChartBar,
    load: () => import('../pages/workload/WorkloadPage.tsx'),
    details: [{ path: 'workload/:digest', title: 'Statement', load: () => import('../pages/workload/DigestPage.tsx') }],
  },
  {
    id: 'replays',
    path: 'replays',
    title: 'Replays',
    icon: IconArrowsDiff,
    load: () => import('../pages/replays/ReplaysPage.tsx'),
    details: [
      {
        ...{ path: 'replays/:namespace/:name', title: 'Replay' },
        load: async () => ({ default: (await import('../pages/replays/ReplaysPage.tsx')).ReplayPage }),
      },
    ],
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
    details: [{ path: 'groups/:name', title: 'Routing group', load: () => import('../pages/groups/GroupPage.tsx') }],
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
  {
    id: 'audit',
    path: 'audit',
    title: 'Audit',
    icon: IconListDetails,
    load: () => import('../pages/audit/AuditPage.tsx'),
  },
];
