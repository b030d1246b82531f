-- Adds to each bid the day and the minute by which the files of a log are partitioned. The sink writes the files,
-- partitioned by `dt` and `hm`.
SELECT
  auction, bidder, price, dateTime, extra,
  date_format(dateTime, 'yyyy-MM-dd') AS dt, date_format(dateTime, 'HH:mm') AS hm
FROM bid
