import { PageFrame } from '../../components/PageFrame.tsx';
export default function DashboardPage() {
  return <PageFrame title="Dashboard">x</PageFrame>;
}
