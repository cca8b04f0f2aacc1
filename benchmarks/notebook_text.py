"""The sentences of the generated notebook: facts with their questions, facts that change, and everyday lines.

Every sentence is our own. Names in braces are filled in; the first of a fact's ``keys`` is different in each of its
instances, so that only one note answers its question.
"""

from typing import NamedTuple

WORDS: dict[str, tuple[str, ...]] = {
    "person": (
        "Mara", "Tobias", "Ines", "Yusuf", "Greta", "Pavel", "Noor", "Anselm", "Lucia", "Henrik", "Odile", "Ravi",
        "Sunniva", "Bruno", "Tamsin", "Emeka", "Livia", "Joris", "Amara", "Stellan",
    ),
    "project": (
        "Falcon", "Juniper", "Kestrel", "Marble", "Otter", "Quartz", "Saffron", "Tundra", "Willow", "Zephyr", "Basalt",
        "Cobalt",
    ),
    "customer": ("Nordlicht", "Bellweather", "Harrow Foods", "Castellan", "Pinecrest", "Vantage Rail", "Solmar"),
    "vendor": ("Hetzner", "Contabo", "Fastmail", "Cloudflare", "Linode", "Backblaze"),
    "city": ("Porto", "Ghent", "Tallinn", "Graz", "Malmö", "Bilbao", "Cork", "Lyon", "Brno", "Turin"),
    "standard": ("SOC 2", "ISO 27001", "PCI DSS", "TISAX"),
    "food": ("shellfish", "walnuts", "celery", "sesame", "lupin", "mustard"),
    "drink": ("green tea", "tomato juice", "oat milk", "ginger ale", "barley water"),
    "feature": ("bulk export", "dark theme", "audit trail", "single sign-on", "offline mode", "map view"),
    "database": ("Postgres", "MariaDB", "CockroachDB", "ScyllaDB", "DuckDB"),
    "tool": ("Grafana", "Jenkins", "Trello", "Sentry", "Zendesk"),
    "newtool": ("Perses", "Buildkite", "Linear", "GlitchTip", "Zammad"),
    "room": ("cedar room", "harbour room", "attic", "library", "glass room"),
    "hotel": ("Hotel Almada", "Pension Rosengarten", "Villa Toomas", "Casa Verde", "Hotel Kamp"),
    "book": ("The Salt Path", "Stoner", "Piranesi", "The Overstory", "Circe"),
    "child": ("Ottilie", "Balthasar", "Seraphina", "Leopold", "Philippa"),
    "cause": ("an expired certificate", "a full disk", "a wrong feature flag", "a leap-second bug", "a bad index"),
    "month": ("April", "June", "August", "September", "November"),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
    "team": ("payments", "search", "mobile", "platform", "support", "data"),
    "time": ("nine", "half past nine", "ten", "half past two", "four"),
    "wifi": ("blue-heron", "kingfisher-5", "pelican-guest", "sandpiper", "grey-plover"),
}  # fmt: skip


class Fact(NamedTuple):
    """A sentence of a note and a question that only this sentence answers."""

    note: str
    question: str
    keys: tuple[str, ...]


FACTS = (
    Fact("{person} audits us for {standard} and wants the access logs by {month}.", "who audits us for {standard}?",
         ("standard", "person", "month")),
    Fact("{vendor} charges {n} euros per server and month.", "what do we pay {vendor} for each server?", ("vendor",)),
    Fact("{person} is allergic to {food}, tell the caterer.", "what can {person} not eat?", ("person", "food")),
    Fact("Agreed to leave the {feature} out of {project}.", "which part of {project} did we leave out?",
         ("project", "feature")),
    Fact("{project} uses {database} because the old database lost writes.",
         "which database does {project} use?", ("project", "database")),
    Fact("The wifi of the {city} office is called {wifi}.", "what is the name of the wifi in the {city} office?",
         ("city", "wifi")),
    Fact("{person} goes on parental leave in {month}, {other} covers the on-call.",
         "who takes over on-call when {person} is on leave?", ("person", "month", "other")),
    Fact("Booked the {hotel} for the offsite in {city}.", "where do we stay during the {city} offsite?",
         ("city", "hotel")),
    Fact("{person} lent me the book {book}.", "which book did I borrow from {person}?", ("person", "book")),
    Fact("Passed the complaint of {customer} about slow reports to {person}.",
         "who looks after the complaint of {customer}?", ("customer", "person")),
    Fact("{customer} renews for {k} years if we add the {feature}.", "what does {customer} want before it renews?",
         ("customer", "feature")),
    Fact("{project} was down for an hour because of {cause}.", "why was {project} down?", ("project", "cause")),
    Fact("We retire {tool} and move everything to {newtool}.", "what are we replacing {tool} with?",
         ("tool", "newtool")),
    Fact("{person}'s daughter {child} starts school in {month}.", "what is the name of {person}'s daughter?",
         ("person", "child", "month")),
    Fact("The retrospective of {project} takes place in the {room}.",
         "in which room is the retrospective of {project}?", ("project", "room")),
    Fact("{person} only drinks {drink}, never coffee.", "what does {person} like to drink?", ("person", "drink")),
    Fact("The budget of {project} is {n} thousand euros.", "how much money may {project} spend?", ("project",)),
    Fact("{person} and {other} review the design of the {feature}.", "who is reviewing the {feature} design?",
         ("feature", "person", "other")),
    Fact("Backups of {project} are deleted after {n} days.", "how long are backups of {project} kept?", ("project",)),
    Fact("The contract with {customer} ends on the 15th of {month}.", "when does the contract with {customer} run out?",
         ("customer", "month")),
)  # fmt: skip

#: What the long-term memory says: nothing here is dated, and nothing is filled in.
LASTING = (
    ("Prefers short answers with the conclusion first.", "how long should answers be?"),
    ("Works from home on Mondays and Fridays.", "on which days does the user work from home?"),
    ("Signs letters as Dr. A. Feldmann.", "how are letters signed?"),
    ("The family car is a grey estate from 2016.", "which car does the family drive?"),
    ("Vegetarian since university, eats eggs.", "is the user a vegetarian?"),
    ("Never schedule meetings before half past eight.", "how early may meetings start?"),
    ("The printer is in the cellar and needs black cartridge 603XL.", "which cartridge does the printer need?"),
    ("Tax adviser is Mrs. Okonkwo in Rosenheim.", "who is the tax adviser?"),
)


class Change(NamedTuple):
    """A fact with an old and a new version, asked with and without a word for the present."""

    old: str
    new: str
    question: str
    cue: str
    keys: tuple[str, ...]


CHANGES = (
    Change("{project} deploys on {weekday}.", "{project} deploys on {weekday2} from this week on.",
           "on which day does {project} deploy?", "on which day does {project} deploy now?", ("project", "weekday")),
    Change("{person} leads the {team} team.", "{other} leads the {team} team since the reshuffle.",
           "who leads the {team} team?", "who currently leads the {team} team?", ("team", "person", "other")),
    Change("The door code of the {city} office is {n}.", "The door code of the {city} office was changed to {m}.",
           "what is the door code of the {city} office?", "what is the current door code of the {city} office?",
           ("city",)),
    Change("{person} lives in {city}.", "{person} has moved and lives in {city2}.", "where does {person} live?",
           "where does {person} live now?", ("person", "city")),
    Change("{customer} pays {n} euros a seat.", "{customer} pays {m} euros a seat after the renewal.",
           "what does {customer} pay for a seat?", "what does {customer} pay for a seat at the moment?", ("customer",)),
    Change("{project} runs on release {k}.{n} of the framework.", "Upgraded {project}, it runs on release {j}.{m}.",
           "which release does {project} run on?", "what is the latest release that {project} runs on?", ("project",)),
    Change("{person}'s phone number is 0171 {n}55{k}.", "{person} has another phone number: 0160 {m}12{j}.",
           "what is {person}'s phone number?", "what is {person}'s current phone number?", ("person",)),
    Change("The standup of {project} is at {time}.", "The standup of {project} was moved to {time2}.",
           "when is the standup of {project}?", "when is the standup of {project} now?", ("project", "time")),
)  # fmt: skip

#: The same in other languages, each once: old, new, question, question with a cue word.
FOREIGN_CHANGES = {
    "de": ("Der Müll wird mittwochs abgeholt.", "Der Müll wird ab heute freitags abgeholt.",
           "Wann wird der Müll abgeholt?", "Wann wird der Müll jetzt abgeholt?"),
    "fr": ("Le club de lecture se réunit chez Camille.", "Le club de lecture se réunit chez Bastien.",
           "Où se réunit le club de lecture ?", "Où se réunit actuellement le club de lecture ?"),
    "es": ("La clave del garaje es 3317.", "La clave del garaje cambió a 8052.", "¿Cuál es la clave del garaje?",
           "¿Cuál es la clave actual del garaje?"),
    "zh": ("周会定在星期二上午。", "周会改到星期四下午。", "周会是什么时候？", "现在周会是什么时候？"),
    "ja": ("駐車場の番号は12番です。", "駐車場の番号は27番に変わりました。", "駐車場の番号は何番ですか？",
           "現在の駐車場の番号は何番ですか？"),
    "ko": ("수영 강습은 화요일 저녁이다.", "수영 강습이 목요일 저녁으로 바뀌었다.", "수영 강습은 언제인가요?",
           "지금 수영 강습은 언제인가요?"),
}  # fmt: skip

#: Facts in other languages: a sentence and its question.
FOREIGN_FACTS = {
    "de": (
        ("Der Klempner kommt am Freitag wegen der Heizung.", "Wann kommt der Klempner?"),
        ("Die Rechnung der Zahnärztin ist erst im Herbst fällig.", "Wann muss ich die Zahnärztin bezahlen?"),
        ("Der Ersatzschlüssel liegt bei Nachbarin Weidner.", "Wer hat den Ersatzschlüssel?"),
        ("Onkel Heinz verträgt keine Haselnüsse.", "Was darf Onkel Heinz nicht essen?"),
        ("Die Werkstatt verlangt 480 Euro für neue Bremsen.", "Wie viel kosten die Bremsen?"),
        ("Die Lesung findet in der Stadtbücherei statt.", "Wo findet die Lesung statt?"),
    ),
    "fr": (
        ("Le plombier passe jeudi pour la chaudière.", "Quand passe le plombier ?"),
        ("Sophie est allergique aux crevettes.", "À quoi Sophie est-elle allergique ?"),
        ("Le double des clés est chez la gardienne.", "Qui garde le double des clés ?"),
        ("Le garage demande 350 euros pour les freins.", "Combien coûte la réparation des freins ?"),
        ("La réunion de parents aura lieu dans le gymnase.", "Où aura lieu la réunion de parents ?"),
        ("Antoine m'a prêté sa perceuse.", "Qui m'a prêté une perceuse ?"),
    ),
    "es": (
        ("El fontanero viene el jueves por la caldera.", "¿Cuándo viene el fontanero?"),
        ("Lucía no tolera la lactosa.", "¿Qué no tolera Lucía?"),
        ("La copia de las llaves la tiene el portero.", "¿Quién tiene la copia de las llaves?"),
        ("El taller pide 290 euros por los frenos.", "¿Cuánto cuestan los frenos?"),
        ("La reunión de vecinos será en el patio.", "¿Dónde será la reunión de vecinos?"),
        ("Diego me prestó su taladro.", "¿Quién me prestó el taladro?"),
    ),
    "zh": (
        ("水管工星期五来修暖气。", "水管工什么时候来？"),
        ("小林对花生过敏。", "小林不能吃什么？"),
        ("备用钥匙放在楼下王阿姨家。", "备用钥匙在哪里？"),
        ("修刹车要花八百块。", "修刹车要多少钱？"),
        ("家长会在体育馆举行。", "家长会在哪里举行？"),
        ("张伟借走了我的电钻。", "谁借走了电钻？"),
    ),
    "ja": (
        ("水道屋さんは金曜日に来る予定。", "水道屋さんはいつ来ますか？"),
        ("美咲さんはエビのアレルギーがある。", "美咲さんは何のアレルギーがありますか？"),
        ("予備の鍵は管理人室に預けた。", "予備の鍵はどこにありますか？"),
        ("ブレーキの修理代は三万円だった。", "ブレーキの修理代はいくらでしたか？"),
        ("保護者会は体育館で開かれる。", "保護者会はどこで開かれますか？"),
        ("健太にドリルを貸した。", "誰にドリルを貸しましたか？"),
    ),
    "ko": (
        ("배관공이 금요일에 보일러를 고치러 온다.", "배관공은 언제 오나요?"),
        ("지민은 새우 알레르기가 있다.", "지민은 무슨 알레르기가 있나요?"),
        ("여분 열쇠는 경비실에 맡겼다.", "여분 열쇠는 어디에 있나요?"),
        ("브레이크 수리비는 삼십만 원이다.", "브레이크 수리비는 얼마인가요?"),
        ("학부모 모임은 체육관에서 열린다.", "학부모 모임은 어디에서 열리나요?"),
        ("민수에게 전동 드릴을 빌려주었다.", "누구에게 전동 드릴을 빌려주었나요?"),
    ),
}  # fmt: skip

#: Everyday lines that share words with the facts and answer none of the questions.
EVERYDAY = (
    "Collected audit evidence with {person}.", "Answered a survey about {project}.", "Coffee with {person}.",
    "Call with {customer} about prices per seat.", "Paid the invoice of {vendor}.", "Two servers were rebooted.",
    "{person} asked about the backup of the test data.", "Wrote the release notes of {project}.",
    "Reviewed a pull request of {person} for {project}.", "The wifi was slow again.", "Lunch with {person} in town.",
    "Planned the sprint of {project} with {person}.", "{customer} sent a long list of wishes.",
    "Interviewed a candidate for the {team} team.", "The lift of the office was out of order.",
    "Train to {city} and back.", "Renewed the parking permit.", "Long mail to {customer} about the schedule.",
    "Cleaned up the board of {project}.", "{person} was ill today.", "Swam a kilometre before work.",
    "Bought bread, cheese and apples.", "Watched a talk about databases.", "Fixed a flaky test in {project}.",
    "{person} showed the new dashboards.", "Ordered a desk lamp.", "Dinner with the neighbours.",
    "Sorted the mail and threw away catalogues.", "Pairing with {person} on {project} until late.",
    "Moved a meeting with {customer} to next week.", "Read two chapters.", "Rain all day.",
    "Helped {person} with the expense report.", "Discussed names for the next release with {person}.",
    "Voted on the colour of the stickers.", "{project} had a quiet day.", "Updated the onboarding page.",
    "The server room was cold.", "Walked along the river.", "Phone call with the insurance.",
)  # fmt: skip
FOREIGN_EVERYDAY = {
    "de": ("Mit der Nachbarin über den Garten gesprochen.", "Rechnungen sortiert und Altpapier weggebracht.",
           "Lange in der Werkstatt gewartet."),
    "fr": ("Courses au marché avec Sophie.", "Le garage était fermé aujourd'hui.", "Longue réunion sans décision."),
    "es": ("Paseo por el patio con los vecinos.", "Compré llaves inglesas y tornillos.", "Reunión larga en el taller."),
    "zh": ("和王阿姨聊了一会儿。", "下午去体育馆打球。", "今天暖气不太热。"),
    "ja": ("体育館でバドミントンをした。", "管理人さんに挨拶した。", "エビチリを作った。"),
    "ko": ("체육관에서 배드민턴을 쳤다.", "경비 아저씨와 인사했다.", "새우 볶음밥을 먹었다."),
}  # fmt: skip

#: Lines with an identifier, and how one asks for it in a sentence.
IDENTIFIERS = {
    "ticket": ("Closed {id}: the total was rounded twice.", "what was the matter with {id}?"),
    "hash": ("Rolled back to commit {id} before lunch.", "when did we roll back to {id}?"),
    "version": ("Pinned the driver at {id} until the bug is fixed.", "why is {id} pinned?"),
    "error": ("The importer stopped with {id} on large files.", "which program fails with {id}?"),
    "path": ("Moved the tax rules into {id} with tests.", "what did we put into {id}?"),
}

#: The hard version: these sentences stand whole in forty other notes, with another identifier.
HARD_QUESTIONS = {
    "ticket": "what did the team decide about ticket {id} in the weekly review?",
    "hash": "which part of the service was changed by commit {id} last spring?",
    "version": "why did the build break after the upgrade to {id} on the server?",
    "error": "which customer reported the error {id} in the export of invoices?",
    "path": "who rewrote the module {id} for the new billing rules?",
}
HARD_ANSWERS = {
    "ticket": "{id}: closed without a change.",
    "hash": "{id} touched the login page.",
    "version": "{id} needs a newer compiler.",
    "error": "{id} was seen at Solmar.",
    "path": "Odile rewrote {id}.",
}

#: Questions that no note answers; half of them name people and projects that the notes are full of.
ABSENT = (
    "what is my passport number?", "what is the name of my hamster?", "when did we sell the sailing boat?",
    "which university did my grandfather attend?", "what is the blood group of {person}?",
    "how tall is {person}?", "which zodiac sign is {person}?", "who composed the anthem of {project}?",
    "what is the licence plate of {person}'s motorcycle?", "which dentist treats {person}'s wisdom teeth?",
    "how many goals did the striker score in the final?", "what is the recipe for grandmother's plum dumplings?",
    "which chromosome carries the mutation?", "how deep is the lake behind the cabin?",
    "what is the boiling point of mercury?", "when does the museum of glass open on holidays?",
    "which orchestra does {person} conduct?", "what did the astronomer discover near Saturn?",
    "who painted the ceiling of the chapel?", "how much does a kilo of saffron threads cost in Tehran?",
    "what is the IBAN of {person}?", "which vaccine did {person} get in Kenya?",
    "how many horses does the farm keep?", "what colour are the curtains in the guest bathroom?",
    "which lottery numbers did {person} pick?", "where is the family grave of {person}?",
    "what is the serial number of the accordion?", "who won the chess tournament in Reykjavik?",
)  # fmt: skip

#: A note and a question about it that share no content word.
PARAPHRASES = (
    ("Bought running shoes before the marathon.", "what gear did I get for jogging?"),
    ("The physician prescribed pills against high blood pressure.", "which medicine treats my hypertension?"),
    ("Our landlord raises the rent in spring.", "will the flat become more expensive?"),
    ("Granny turned ninety, cake in the garden.", "how old is my grandmother?"),
    ("The car broke down on the motorway and was towed.", "what happened to my vehicle on the highway?"),
    ("The plumber stopped the leaking tap in the kitchen.", "who repaired the dripping faucet?"),
    ("Adopted a kitten from the animal shelter.", "which pet did we take in?"),
    ("Signed the mortgage papers at the bank.", "when did I agree to the home loan?"),
    ("The flight to Lisbon was cancelled because of fog.", "why could the plane not take off?"),
    ("The boss granted me two extra days of holiday.", "how much additional vacation did my manager allow?"),
    ("Hired a babysitter for Saturday evening.", "who looks after the children at the weekend?"),
    ("The laptop's battery no longer charges.", "what is wrong with my notebook computer?"),
    ("Uncle Karl sold his vineyard.", "which relative gave up making wine?"),
    ("Planted tulips and daffodils along the fence.", "what flowers grow in our yard?"),
    ("The optician says that I need stronger glasses.", "did my eyesight get worse?"),
    ("Piano lessons every Thursday from now on.", "which instrument am I learning?"),
    ("The burglar alarm went off at midnight.", "what noise woke us in the dark?"),
    ("Swapped the petrol mower for an electric one.", "which machine do I cut the grass with?"),
    ("The choir sang carols in the church.", "where was the Christmas concert?"),
    ("Caught a cold and stayed in bed.", "when did I feel sick?"),
    ("The solicitor drafted my last will.", "which lawyer prepared the testament?"),
    ("Cooked lentil soup from scratch.", "what vegetarian meal did I make?"),
    ("Our firm will merge with a rival.", "is the company joining a competitor?"),
    ("The parcel was stolen from the doorstep.", "which package disappeared?"),
    ("Quit smoking for good.", "since when do I live without cigarettes?"),
    ("The cyclist injured his knee in a crash.", "who was hurt in the bike accident?"),
    ("Enrolled our son at the primary school.", "where does the boy get educated?"),
    ("Donated old clothes to charity.", "what did I do with the used garments?"),
    ("The novelist won a literary prize.", "which author received an award?"),
    ("Painted the walls pale green.", "what colour did we choose for the paintwork of the house?"),
)
#: Questions about a day, by language: yesterday, the day before yesterday, three days ago, last Wednesday.
DAYS = {
    "en": ("what did I do yesterday?", "what happened the day before yesterday?", "what did I do three days ago?",
           "what did I write last Wednesday?"),
    "de": ("Was habe ich gestern gemacht?", "Was war vorgestern?", "Was habe ich vor drei Tagen gemacht?",
           "Was habe ich letzten Mittwoch notiert?"),
    "fr": ("Qu'est-ce que j'ai fait hier ?", "Qu'ai-je fait avant-hier ?", "Qu'ai-je fait il y a trois jours ?",
           "Qu'ai-je noté mercredi dernier ?"),
    "es": ("¿Qué hice ayer?", "¿Qué hice anteayer?", "¿Qué hice hace tres días?", "¿Qué anoté el miércoles pasado?"),
    "zh": ("昨天我做了什么？", "前天我做了什么？", "三天前我做了什么？", "上周三我做了什么？"),
    "ja": ("昨日は何をしましたか？", "一昨日は何をしましたか？", "三日前は何をしましたか？",
           "先週の水曜日は何をしましたか？"),
    "ko": ("어제 무엇을 했나요?", "그저께 무엇을 했나요?", "3일 전에 무엇을 했나요?", "지난주 수요일에 무엇을 했나요?"),
}  # fmt: skip
#: Questions about a week or a month: last week, the month of June.
RANGES = {
    "en": ("what did I do last week?", "what happened in June 2025?"),
    "de": ("Was habe ich letzte Woche gemacht?", "Was war im Juni 2025?"),
    "fr": ("Qu'ai-je fait la semaine dernière ?", "Que s'est-il passé en juin 2025 ?"),
    "es": ("¿Qué hice la semana pasada?", "¿Qué pasó en junio de 2025?"),
    "zh": ("上周我做了什么？", "2025年6月发生了什么？"),
    "ja": ("先週は何をしましたか？", "2025年6月には何がありましたか？"),
    "ko": ("지난주에 무엇을 했나요?", "2025년 6월에 무슨 일이 있었나요?"),
}
#: A day together with other words: the everyday line of that day, and the question.
DAY_AND_WORDS = (
    ("Lunch with {person} at the canteen.", "who did I have lunch with yesterday?", 1),
    ("Lunch with {person} at the market.", "who did I have lunch with last Friday?", 3),
    ("Call with {customer} about delivery.", "which customer did I call last Tuesday?", 6),
    ("Call with {customer} about a refund.", "which customer did I call last Thursday?", 4),
)
