SELECT nationkey, name, regionkey FROM tpch.tiny.nation
