SELECT r.regionkey, r.name, count(*) AS nations
FROM tpch.tiny.region r
JOIN {{ ref('nations') }} n ON n.regionkey = r.regionkey
GROUP BY 1, 2
