-- Counts the bids of each bidder in every 10 seconds. Nexmark uses windows of processing time, which Spark SQL does not
-- have and whose results differ from run to run: these are of event time.
SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid
GROUP BY bidder, window(dateTime, '10 seconds')
